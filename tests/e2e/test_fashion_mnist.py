"""The README's job on real pods, checked from outside with a user's tools."""

import json
import pathlib
from collections.abc import Iterator

import pytest
from support.api import Json
from support.e2e import Cluster, example
from support.polling import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

JOB = "e2e-fashion"
HERE = pathlib.Path(__file__).parent


class Finished:
    """A job that has ended, and what was seen of it on the way."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.phases: list[str] = []
        self.steps: list[int] = []
        wait_for("the job to end", self._has_ended, seconds=600)
        self.job = cluster.job(JOB)
        self.status: Json = self.job["status"]
        self.checkpoints = f"/volume/checkpoints/{JOB}-{self.job['metadata']['uid']}"

    def _has_ended(self) -> bool:
        status = self.cluster.job(JOB).get("status", {})
        phase, step = status.get("phase", "Pending"), status.get("progress", {}).get("step", 0)
        if phase not in self.phases[-1:]:
            self.phases.append(phase)
        if step not in self.steps[-1:]:
            self.steps.append(step)
        return phase in {"Succeeded", "Failed", "Invalid"}


@pytest.fixture(scope="module")
def finished(cluster: Cluster) -> Iterator[Finished]:
    cluster.delete_job(JOB)
    # Long enough for steps to be seen on the way: the status follows a job every few seconds only.
    output = cluster.apply(example(JOB, epochs=12))
    assert "created" in output, output
    yield Finished(cluster)
    cluster.delete_job(JOB)


def test_the_job_succeeds_and_its_evaluation_covers_every_example(finished: Finished) -> None:
    assert finished.status["phase"] == "Succeeded", finished.status["summary"]
    final = finished.status["evaluation"]["final"]
    assert final["examples"] == 10_000
    assert final["metrics"]["accuracy"] >= 0.85


def test_its_phases_are_seen_in_their_order_and_its_steps_move(finished: Finished) -> None:
    order = ["Pending", "Starting", "Running", "Evaluating", "Succeeded"]
    assert finished.phases == [p for p in order if p in finished.phases], finished.status.get("failures")
    assert {"Running", "Evaluating"} <= set(finished.phases)
    assert finished.steps == sorted(finished.steps)
    assert len(finished.steps) >= 3
    assert finished.status["progress"]["step"] == finished.status["progress"]["totalSteps"]
    assert finished.status["progress"]["percent"] == 100


def test_each_pod_had_the_tf_config_of_its_place(finished: Finished) -> None:
    namespace = finished.cluster.namespace
    expected = {
        f"{role}-{index}": {
            "cluster": {"worker": [f"{role}-{i}.{JOB}.{namespace}.svc:2222" for i in range(2)]},
            "task": {"index": index, "type": "worker"},
        }
        for role in ("worker", "evaluation")
        for index in range(2)
    }
    seen = {}
    for pod in finished.cluster.pods(JOB):
        env = {e["name"]: e.get("value") for e in pod["spec"]["containers"][0]["env"]}
        seen[pod["spec"]["hostname"]] = json.loads(env["TF_CONFIG"])
    assert seen == expected


def test_its_metrics_are_those_of_a_single_process_on_the_same_checkpoint(finished: Finished) -> None:
    final = finished.status["evaluation"]["final"]
    checkpoint = final["checkpoint"].replace("/ckpt", "/volume/checkpoints", 1)
    program = (HERE / "single_process.py").read_text()
    run = ["python", "-", checkpoint, "/volume/data/test-*.tfrecord"]
    alone = json.loads(finished.cluster.inside(*run, stdin=program).splitlines()[-1])
    assert alone["examples"] == final["examples"]
    assert final["metrics"]["accuracy"] == pytest.approx(alone["accuracy"], rel=1e-6)
    assert final["metrics"]["loss"] == pytest.approx(alone["loss"], rel=1e-4)


def test_worker_0_alone_wrote_checkpoints_and_nothing_else_is_left(finished: Finished) -> None:
    inside = finished.cluster.inside
    names = inside("ls", "-A", finished.checkpoints).split()
    steps = sorted(name for name in names if name.startswith("checkpoint-"))
    assert len(steps) == 2, "spec.checkpoint.keep"
    assert set(names) - set(steps) == {"evaluation", "fence.json", "final.json", "tensorboard"}
    for step in steps:
        files = inside("ls", "-A", f"{finished.checkpoints}/{step}").split()
        assert sorted(files) == ["checkpoint.json", "variables.data-00000-of-00001", "variables.index"]
        writer = json.loads(inside("cat", f"{finished.checkpoints}/{step}/checkpoint.json"))["writer"]
        assert (writer["role"], writer["index"], writer["attempt"]) == ("worker", 0, 0)
    wrote = {index: _logged_a_checkpoint(finished.cluster, f"{JOB}-worker-{index}") for index in range(2)}
    assert wrote == {0: True, 1: False}


def _logged_a_checkpoint(cluster: Cluster, pod: str) -> bool:
    log = cluster.kubectl.run("logs", f"--namespace={cluster.namespace}", pod)
    return any(" checkpoint step=" in line for line in log.splitlines())


def test_the_end_is_final_even_for_a_new_controller(finished: Finished) -> None:
    kubectl, before = finished.cluster.kubectl, finished.cluster.job(JOB)
    true = [c["type"] for c in before["status"]["conditions"] if c["status"] == "True"]
    assert [t for t in true if t in {"Succeeded", "Failed"}] == ["Succeeded"]
    assert before["status"]["completionTime"]
    controller = f"deployment/{kubectl.place.controller}", f"--namespace={kubectl.place.system}"
    kubectl.run("rollout", "restart", *controller)
    kubectl.run("rollout", "status", *controller, "--timeout=55s")
    # the new controller has reconciled every job once it has reconciled a later one
    finished.cluster.apply(_canary())
    wait_for(
        "a reconciliation by the new controller", lambda: finished.cluster.job("canary").get("status", {}).get("phase")
    )
    finished.cluster.delete_job("canary")
    assert finished.cluster.job(JOB)["status"] == before["status"]


def _canary() -> Json:
    job = example("canary")
    job["spec"]["worker"] = {"replicas": 1}
    return job


def test_deleting_the_job_leaves_no_object_of_it(cluster: Cluster) -> None:
    cluster.apply(example("short-lived"))
    wait_for("its pods", lambda: len(cluster.pods("short-lived")) == 2)
    cluster.delete_job("short-lived")
    kinds = "tfd,pods,services,endpointslices,configmaps,deployments,networkpolicies"

    def left() -> list[str]:
        found = cluster.kubectl.get(kinds, f"--namespace={cluster.namespace}", "--selector=tfdist.dev/job=short-lived")
        return [item["kind"] for item in found["items"]] if found else []

    wait_for("all its objects to be deleted", lambda: not left())
