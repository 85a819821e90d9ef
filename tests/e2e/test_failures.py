"""Pods that are lost, killed for memory, or never start: what the job does, and what kubectl prints of it."""

from collections.abc import Iterator

import pytest
from support.api import Json
from support.e2e import INSPECTOR, Cluster
from support.failing_jobs import ENDS, WAITS, JobNamespace, own_namespace, small_job
from support.nodes import send_signal
from support.polling import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

EATS_MEMORY = """
import json, os
if json.loads(os.environ["TFDIST_JOB"])["attempt"] < 2:
    eaten = b"x" * (1 << 30)
"""
"""Wants too much memory in its first two attempts."""
REPORTS = """
import http.server, json, os
job = json.loads(os.environ["TFDIST_JOB"])
report = {"role": job["role"], "index": job["index"], "attempt": job["attempt"], "phase": "training", "step": 7}
pages = {"/v1/progress": json.dumps(report), "/v1/stacks": "MainThread waits for worker-1"}

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(pages[self.path].encode())

http.server.ThreadingHTTPServer(("", 8790), Handler).serve_forever()
"""
"""Reports step 7 for ever."""
LOST = ("deleted-pod", "evicted-pod")
NOWHERE = {"template": {"spec": {"nodeSelector": {"no-node": "has-this"}}}}
SOON = {"startDeadlineSeconds": 10}
PULLED = {"startDeadlineSeconds": 45}
"""Enough for a kubelet on a loaded machine to report that it cannot pull an image."""


@pytest.fixture(scope="module")
def jobs(cluster: Cluster) -> Iterator[JobNamespace]:
    """All of them started together."""
    with own_namespace(cluster, "failures") as jobs:
        one_without_place = small_job("no-place", WAITS, chief={}, runPolicy=SOON)
        one_without_place["spec"]["worker"] |= NOWHERE
        jobs.start(
            *(small_job(name, WAITS, replicas=2) for name in LOST),
            small_job("out-of-memory", EATS_MEMORY),
            small_job("no-image", WAITS, image="localhost/no-such-image:1", runPolicy=PULLED),
            one_without_place,
            small_job("standing-still", REPORTS, replicas=2, runPolicy={"backoffLimit": 1}),
            _with_sidecar(cluster),
        )
        yield jobs


def _with_sidecar(cluster: Cluster) -> Json:
    """Return a job that fails once and then succeeds, with a second, ordinary container that never ends."""
    place = cluster.kubectl.place.namespace
    inspector = cluster.kubectl.get("pod", INSPECTOR, f"--namespace={place}") or {}
    image = inspector["spec"]["containers"][0]["image"]
    job = small_job("with-sidecar", ENDS, "1 oops", "0", replicas=2)
    job["spec"]["template"]["spec"]["containers"] = [
        {"name": "ordinary", "image": image, "command": ["sleep", "infinity"], "securityContext": _RESTRICTED}
    ]
    return job


_RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@pytest.mark.parametrize("name", LOST)
def test_an_evicted_or_deleted_pod_restarts_the_gang_without_counting(jobs: JobNamespace, name: str) -> None:
    pods = jobs.runs(name)
    assert [p["metadata"]["name"] for p in pods] == [f"{name}-worker-0", f"{name}-worker-1"]
    taken = f"{name}-worker-1"
    if name == "evicted-pod":
        jobs.evict(taken)
    else:
        jobs.delete_pod(taken)
    status = jobs.ended(name)
    assert status["phase"] == "Succeeded"
    assert status["restarts"] == {"counted": 0, "uncounted": 1, "sinceCheckpoint": 0}
    [cause] = jobs.root_causes(name)
    assert (cause["reason"], cause["counted"], cause["pod"]) == ("Disruption", False, taken)
    assert jobs.printed(name)["RESTARTS"] == "1"
    jobs.await_description(name, "Reason: Disruption", "Warning Restarting", "worker-1")


def test_a_replica_that_is_killed_for_memory_is_restarted_with_reason_out_of_memory(jobs: JobNamespace) -> None:
    status = jobs.ended("out-of-memory")
    assert status["phase"] == "Succeeded"
    assert status["restarts"]["counted"] == 2
    causes = jobs.root_causes("out-of-memory")
    assert [(cause["exitCode"], cause["counted"]) for cause in causes] == [(137, True)] * 2
    # containerd reports `Error` when it learns of the end before the reason: then the cause is unknown.
    assert "OutOfMemory" in {cause["reason"] for cause in causes}
    jobs.await_description("out-of-memory", "Reason: OutOfMemory", "Warning Restarting")


def test_a_missing_image_is_named_with_its_field_and_fails_the_job_at_the_deadline(jobs: JobNamespace) -> None:
    status = jobs.ended("no-image")
    printed = jobs.printed("no-image")
    assert (printed["PHASE"], printed["RESTARTS"]) == ("Failed", "0")
    for part in ("spec.image: worker-0 cannot start", "localhost/no-such-image:1", "gave up after 45 s"):
        assert part in printed["MESSAGE"], printed["MESSAGE"]
    failed = next(c for c in status["conditions"] if c["type"] == "Failed")
    assert failed["reason"] == "ImageError"
    jobs.await_description("no-image", "Reason: ImageError", "Warning Failed")
    wait_for("its pods to go", lambda: not jobs.cluster.pods("no-image"))


def test_a_job_with_an_unschedulable_replica_names_it_fails_and_releases_its_other_pods(jobs: JobNamespace) -> None:
    status = jobs.ended("no-place")
    printed = jobs.printed("no-place")
    assert (printed["PHASE"], printed["RESTARTS"]) == ("Failed", "0")
    for part in ("worker-0 cannot start: Unschedulable", "nodes are available", "gave up after 10 s"):
        assert part in printed["MESSAGE"], printed["MESSAGE"]
    failed = next(c for c in status["conditions"] if c["type"] == "Failed")
    assert failed["reason"] == "Unschedulable"
    jobs.await_description("no-place", "Reason: Unschedulable", "Warning Failed")
    wait_for("the chief to go", lambda: not jobs.cluster.pods("no-place"))


def test_a_gang_that_stands_still_is_detected_and_the_late_replica_named_with_all_stacks(
    jobs: JobNamespace,
) -> None:
    name = "standing-still"
    send_signal(jobs.runs(name)[1], "STOP")
    jobs.change(name, {"runPolicy": {"progressDeadlineSeconds": 5}})
    jobs.runs(name, attempt=1)
    cause = jobs.root_causes(name)[0]
    assert (cause["reason"], cause["index"], cause["counted"]) == ("Stalled", 1, True)
    assert "worker-0: MainThread waits" in cause["stacks"]
    assert "worker-1: does not answer" in cause["stacks"]
    jobs.await_description(name, "Warning Stalled", "worker-1 is behind", "Reason: Stalled", "Stacks: worker-0")


def test_sidecars_end_with_their_replica_and_its_log_stays(jobs: JobNamespace) -> None:
    name = "with-sidecar"
    status = jobs.ended(name)
    assert (status["phase"], status["restarts"]["counted"]) == ("Succeeded", 1)

    def phases() -> set[str]:
        return {pod["status"]["phase"] for pod in jobs.cluster.pods(name)}

    wait_for("its pods, those of the failed attempt too, to hold nothing", lambda: phases() <= {"Succeeded", "Failed"})
    [cause] = jobs.root_causes(name)
    place = f"--namespace={jobs.cluster.namespace}"
    assert "oops" in jobs.cluster.kubectl.run("logs", place, cause["pod"], "--container=tensorflow")
