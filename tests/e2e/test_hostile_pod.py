"""A pod that answers the controller in every hostile way, next to a job of another tenant that must not notice."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from support.api import Json
from support.e2e import Cluster
from support.failing_jobs import JobNamespace, own_namespace, small_job
from support.polling import wait_for

from tfdist.api.status import TFDistJobStatus

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

HOSTILE: Final = Path(__file__).parents[1] / "support" / "programs" / "hostile.py"
CONFIG_MAP: Final = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "program"}}
FOLDER: Final = "/program"
TEMPLATE: Final[Json] = {
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "program", "configMap": {"name": "program"}}],
        "containers": [{"name": "tensorflow", "volumeMounts": [{"name": "program", "mountPath": FOLDER}]}],
    }
}
SECRET: Final = "SECRET_of_another_tenant"  # noqa: S105  as a name of a metric
NEIGHBOUR: Final = f"""
import http.server, json, os, time
job = json.loads(os.environ["TFDIST_JOB"])
begun = time.monotonic()

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        step = int(10 * (time.monotonic() - begun))
        report = {{"role": job["role"], "index": job["index"], "attempt": job["attempt"], "phase": "training"}}
        report |= {{"step": step, "totalSteps": 100000, "metrics": {{"{SECRET}": 0.5}}}}
        body = json.dumps(report) if self.path == "/v1/progress" else "{SECRET} in stacks"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

http.server.ThreadingHTTPServer(("", 8790), Handler).serve_forever()
"""
"""Does ten steps in a second for ever, and keeps a secret in its report and its stacks."""
LARGEST_GROWTH: Final = 64 * 2**20
METRICS: Final = """
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8080/metrics", timeout=5).read().decode())
"""
"""Runs in the pod of a controller, which admits no other namespace."""


@pytest.fixture(scope="module")
def neighbour(cluster: Cluster) -> Iterator[JobNamespace]:
    with own_namespace(cluster, "neighbour") as jobs:
        jobs.start(small_job("neighbour", NEIGHBOUR))
        jobs.runs("neighbour")
        yield jobs


@pytest.fixture(scope="module")
def hostile(cluster: Cluster, neighbour: JobNamespace) -> Iterator[JobNamespace]:
    """A job that is hostile to every poll, and one that is found to stand still and hostile to who asks for stacks."""
    victim = neighbour.cluster.pods("neighbour")[0]["status"]["podIP"]
    with own_namespace(cluster, "hostile") as jobs:
        stands_still = {"backoffLimit": 0, "progressDeadlineSeconds": 5}
        jobs.start(
            CONFIG_MAP | {"data": {HOSTILE.name: HOSTILE.read_text()}},
            hostile_job("hostile", victim, 99),
            hostile_job("hostile-stacks", victim, 1, runPolicy=stands_still),
        )
        jobs.runs("hostile")
        yield jobs


def hostile_job(name: str, victim: str, ways: int, **spec: Any) -> Json:
    command = ["python", f"{FOLDER}/{HOSTILE.name}", victim, str(ways)]
    return small_job(name, "", command=command, template=TEMPLATE, **spec)


def controllers(cluster: Cluster) -> list[Json]:
    place = cluster.kubectl.place
    return cluster.kubectl.pods(place.system, place.selector)


def restarts(cluster: Cluster) -> dict[str, int]:
    return {p["metadata"]["uid"]: p["status"]["containerStatuses"][0]["restartCount"] for p in controllers(cluster)}


def memory(cluster: Cluster) -> dict[str, float]:
    """Return the resident memory of each controller, in bytes."""
    usage: dict[str, float] = {}
    for pod in controllers(cluster):
        name, namespace = pod["metadata"]["name"], f"--namespace={cluster.kubectl.place.system}"
        text = cluster.kubectl.run("exec", namespace, name, "--", "python", "-c", METRICS)
        lines = dict(line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#"))
        usage[pod["metadata"]["uid"]] = float(lines["process_resident_memory_bytes"])
    return usage


def progress(jobs: JobNamespace, name: str) -> Json:
    stored: Json = jobs.cluster.job(name).get("status", {}).get("progress", {})
    return stored


@pytest.mark.parametrize("seconds", [60, pytest.param(600, marks=pytest.mark.long)])
def test_a_hostile_pod_affects_only_its_own_job(
    cluster: Cluster, hostile: JobNamespace, neighbour: JobNamespace, seconds: int
) -> None:
    before, at_first = restarts(cluster), memory(cluster)
    wait_for("the neighbour's first step", lambda: progress(neighbour, "neighbour").get("step"))
    begun, first = time.monotonic(), progress(neighbour, "neighbour")["step"]
    while time.monotonic() - begun < seconds:
        goes_on(neighbour)
        holds_nothing_of_others(hostile)
    done = (progress(neighbour, "neighbour")["step"] - first) / 10
    assert done > 0.7 * seconds, "the neighbour's progress is as new as its reports"
    assert restarts(cluster) == before, "no controller has restarted"
    now = memory(cluster)
    assert all(now[pod] - at_first[pod] < LARGEST_GROWTH for pod in now), (at_first, now)


def goes_on(jobs: JobNamespace) -> None:
    """Return when the neighbour's status shows more steps than now."""
    step = progress(jobs, "neighbour")["step"]
    wait_for("the neighbour's next steps", lambda: progress(jobs, "neighbour")["step"] > step)


def holds_nothing_of_others(jobs: JobNamespace) -> None:
    """Assert that the status is one of its own job, in bounds."""
    status: dict[str, Any] = jobs.cluster.job("hostile").get("status", {})
    TFDistJobStatus.model_validate(status)
    text = json.dumps(status)
    assert SECRET not in text
    assert "REDIRECTED" not in text
    assert len(text) < 64_000


def test_no_redirect_was_followed_and_no_stacks_of_another_tenant_are_shown(hostile: JobNamespace) -> None:
    log = hostile.cluster.kubectl.run("logs", f"--namespace={hostile.cluster.namespace}", "hostile-worker-0")
    assert "REDIRECTED" not in log
    status = hostile.ended("hostile-stacks")
    [failure] = status["failures"]
    assert (failure["reason"], SECRET in json.dumps(status)) == ("Stalled", False)
    assert "returns no readable stacks" in failure["stacks"]


def test_made_up_failures_flood_no_events(hostile: JobNamespace) -> None:
    namespace = hostile.cluster.namespace
    events = hostile.cluster.kubectl.get("events.events.k8s.io", f"--namespace={namespace}")
    mine = [event for event in (events or {"items": []})["items"] if event["regarding"]["name"] == "hostile"]
    assert 0 < len(mine) <= 60


def test_a_hostile_job_is_suspended_as_any_other(hostile: JobNamespace) -> None:
    hostile.change("hostile", {"runPolicy": {"suspend": True}})
    wait_for("the hostile pod to go", lambda: not hostile.cluster.pods("hostile"))
    hostile.cluster.await_condition("hostile", "Suspended", "Suspended")
