"""Sidecars end with their replica: containers that still run keep the resources of the pod."""

from typing import Any

import pytest
from support.factories import NOW, Lifecycle, created, deleted, pod

from tfdist.observed.pod import PodState, PodSummary, summarize
from tfdist.planner import Plan
from tfdist.render import names
from tfdist.timestamps import rfc3339

BOTH = "worker-0:R worker-1:R"
DEADLINE = {"spec": {"activeDeadlineSeconds": 1}}


def raw(phase: str = "Running", deadline: int | None = None, **containers: dict[str, Any]) -> PodSummary:
    """Return the summary of a pod with these states of its containers."""
    labels = {names.JOB_UID_LABEL: "u", names.ROLE_LABEL: "worker", names.INDEX_LABEL: "0", names.ATTEMPT_LABEL: "0"}
    statuses = [{"name": name, "state": state} for name, state in containers.items()]
    meta = {"name": "p", "uid": "p", "resourceVersion": "1", "labels": labels}
    spec = {} if deadline is None else {"activeDeadlineSeconds": deadline}
    return summarize({"metadata": meta, "spec": spec, "status": {"phase": phase, "containerStatuses": statuses}})


RUNS: dict[str, Any] = {"running": {}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}


@pytest.mark.parametrize(
    ("seen", "runs"),
    [
        pytest.param(raw(tensorflow=DONE, side=RUNS), True, id="a sidecar runs on"),
        pytest.param(raw(tensorflow=DONE, side={"waiting": {}}), True, id="a sidecar is about to be restarted"),
        pytest.param(raw(tensorflow=RUNS, side=RUNS), False, id="the replica runs"),
        pytest.param(raw(tensorflow=DONE, side=DONE), False, id="all have ended, and the phase follows"),
        pytest.param(raw(tensorflow=DONE), False, id="it has none, or native ones, which the kubelet ends"),
        pytest.param(raw("Failed", tensorflow=DONE, side=RUNS), False, id="the pod has ended"),
    ],
)
def test_a_pod_holds_resources_while_a_sidecar_outlives_its_replica(seen: PodSummary, runs: bool) -> None:
    assert seen.sidecars_run is runs


def test_a_pod_whose_sidecars_were_ended_by_the_deadline_is_as_its_replica_ended() -> None:
    ended = raw("Failed", 1, tensorflow=DONE, side={"terminated": {"exitCode": 137}})
    assert (ended.state, ended.exit_code, ended.has_deadline) == (PodState.SUCCEEDED, 0, True)


def patched(todo: Plan) -> dict[str, Any]:
    return {patch.pod.removeprefix("fashion-"): patch.body for patch in todo.patches}


def test_sidecars_of_a_job_that_has_ended_are_ended_and_the_pods_stay() -> None:
    job = Lifecycle(BOTH)
    done = [pod("worker-0", "S", sidecars_run=True), pod("worker-1", "S", sidecars_run=True)]
    job.reconcile(done)
    todo = job.reconcile(done, after=60)
    assert patched(todo) == {"worker-0": DEADLINE, "worker-1": DEADLINE}
    assert deleted(todo) == []
    asked = [pod("worker-0", "S", sidecars_run=True, has_deadline=True), pod("worker-1", "S")]
    assert patched(job.reconcile(asked, after=1)) == {}


def test_a_failed_attempt_that_is_kept_for_its_log_holds_no_resources_of_the_next_one() -> None:
    job = Lifecycle(BOTH)
    todo = job.reconcile([pod("worker-0"), pod("worker-1", "F", sidecars_run=True)])
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
    assert patched(todo) == {"worker-1": DEADLINE}
    assert deleted(todo) == ["worker-0"], "worker-1 is kept for its log"


def test_a_pod_that_is_deleted_is_not_changed_before() -> None:
    job = Lifecycle(BOTH, runPolicy={"cleanPodPolicy": "All", "backoffLimit": 0})
    lost = [pod("worker-0", deleting=True), pod("worker-1", "F", sidecars_run=True)]
    job.reconcile(lost)
    todo = job.reconcile(lost)
    assert (patched(todo), deleted(todo)) == ({}, ["worker-1"])


def test_a_job_is_suspended_when_its_last_sidecar_has_ended() -> None:
    job = Lifecycle(BOTH)
    job.spec = {"runPolicy": {"suspend": True}}
    saved = pod("worker-0", "F", exit_code=42, sidecars_run=True, deleted_at=rfc3339(NOW))
    assert patched(job.reconcile([saved])) == {"worker-0": DEADLINE}
    assert job.status["phase"] == "Suspending"
    job.reconcile([pod("worker-0", "F", exit_code=42, has_deadline=True)])
    assert job.status["phase"] == "Suspended"
