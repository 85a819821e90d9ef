"""Messages about failures: object, fact and remedy, each once, and about the right replica."""

import json
from typing import Any

import pytest
from support.factories import NOW, Lifecycle, condition, event_reasons, launcher_report, pod, stored
from support.factories import failure_in_place as failure

from tfdist.contract import Restarts
from tfdist.failure_classification import LIMIT_MESSAGE
from tfdist.observed.pod import summarize
from tfdist.render import names
from tfdist.timestamps import rfc3339

BOTH = "worker-0:R worker-1:R"
SPENT = LIMIT_MESSAGE.format(limit=1)


def gave_up(name: str, code: int, reason: str, message: str, **restarts: int) -> Any:
    """Return a pod whose launcher gave up because of worker 0."""
    end = {"role": "worker", "index": 0, "round": 1, "reason": reason}
    end |= {"restarts": Restarts(**restarts).model_dump(by_alias=True)}
    return pod(name, "F", exit_code=code, message=json.dumps({"reason": reason, "message": message, "gangEnd": end}))


def failed(pods: list[Any], **spec: Any) -> Lifecycle:
    """Return a job that fails with these pods."""
    job = Lifecycle(BOTH, **spec)
    job.reconcile(BOTH, report=launcher_report())
    job.reconcile(pods)
    assert job.status["phase"] == "Failed"
    return job


def test_the_replica_that_is_the_root_cause_is_named_although_the_pod_of_another_ended_first() -> None:
    reporter = gave_up("worker-1", 78, "UserError", "worker-0: training.config.data: Field required")
    job = failed([pod("worker-0", node="node-b"), reporter])
    text = "worker-0 (pod fashion-worker-0, node node-b) ended with exit code 78: training.config.data: Field required"
    assert job.message("Failed").startswith(f"{text}; a restart would fail the same way")
    assert "worker-1" not in job.message("Failed")
    (cause,) = job.status["failures"]
    assert (cause["pod"], cause["node"]) == ("fashion-worker-0", "node-b")
    assert cause["message"] == "training.config.data: Field required"


def test_of_many_failures_the_status_keeps_the_root_cause_and_the_last_ones_by_name() -> None:
    pods = [pod(f"worker-{number}", "F", exit_code=1, message=f"error {number}") for number in range(40)]
    begun = {"phase": "Running", "gangs": {"training": {"attempt": 0}}}
    status = stored(pods, begun, spec={"worker": {"replicas": 40}})
    last = sorted((p.name for p in pods), reverse=True)[:9]
    assert [(f["pod"], f["reason"]) for f in status["failures"]] == [
        *((name, "Secondary") for name in reversed(last)),
        ("fashion-worker-0", "ApplicationError"),
    ]
    assert [f["message"] for f in status["failures"][-2:]] == ["error 9", "error 0"]


def test_a_limit_that_launchers_have_reached_is_reported_once() -> None:
    message = f"worker-0: out of luck; {SPENT}"
    lost = gave_up("worker-0", 1, "BackoffLimitExceeded", message, counted=2, since_checkpoint=2)
    job = failed([lost, pod("worker-1")], runPolicy={"backoffLimit": 1})
    assert job.message("Failed").count("backoffLimit of 1 exceeded") == 1
    assert "out of luck" in job.message("Failed")
    assert job.status["failures"][-1]["message"] == "out of luck"


def test_the_cause_in_the_end_of_a_log_is_the_message_and_not_its_last_line() -> None:
    """Given a program without a termination message, whose log Kubernetes substitutes, when it fails, then..."""
    log = 'Traceback (most recent call last):\n  File "train.py", line 3\nValueError: no column a\nbye from atexit\n'
    job = failed([pod("worker-0", "F", exit_code=1, message=log), pod("worker-1")], runPolicy={"backoffLimit": 0})
    assert "ended with exit code 1: ValueError: no column a; " in job.message("Failed")
    assert job.status["failures"][-1]["message"] == "ValueError: no column a"


def test_a_message_has_the_command_that_prints_the_log() -> None:
    job = failed([pod("worker-0", "F", exit_code=64), pod("worker-1")])
    assert job.message("Failed").endswith("; its log: kubectl logs -n team fashion-worker-0 -c tensorflow")


def test_the_message_of_a_failed_init_container_has_the_command_that_prints_its_log() -> None:
    labels = {names.JOB_UID_LABEL: "u", names.ROLE_LABEL: "worker", names.INDEX_LABEL: "0", names.ATTEMPT_LABEL: "0"}
    ended = {"terminated": {"exitCode": 64, "reason": "Error", "message": "no such bucket"}}
    status = {"phase": "Failed", "initContainerStatuses": [{"name": "fetch", "state": ended}]}
    meta = {"name": "fashion-worker-0", "uid": "p", "resourceVersion": "1", "labels": labels}
    job = failed([summarize({"metadata": meta, "status": status}), pod("worker-1")])
    assert job.message("Failed").endswith("; its log: kubectl logs -n team fashion-worker-0 -c fetch")
    assert "init container fetch: no such bucket" in job.message("Failed")


@pytest.mark.parametrize("code", [1, 75])
def test_a_replica_that_exited_with_0_before_its_peers_is_named_in_their_failure(code: int) -> None:
    early = pod("worker-1", "S", finished_at="2030-01-02T03:03:00Z")
    job = failed([pod("worker-0", "F", exit_code=code), early], runPolicy={"backoffLimit": 0})
    assert "worker-1 had exited with 0 before" in job.message("Failed")


def test_a_replica_that_succeeds_after_a_failure_is_not_named_in_it() -> None:
    late = pod("worker-1", "S", finished_at="2030-01-02T03:05:00Z")
    job = failed([pod("worker-0", "F", exit_code=1), late], runPolicy={"backoffLimit": 0})
    assert "worker-1" not in job.message("Failed")


def test_a_launcher_that_knows_the_exit_code_only_adds_no_second_sentence() -> None:
    ended = gave_up("worker-0", 3, "RepeatedError", "worker-0 ended with exit code 3; the same error twice")
    job = failed([ended, pod("worker-1")])
    assert job.message("Failed").count("ended with exit code 3") == 1
    assert "the same error twice" in job.message("Failed")


def ended_by_the_kubelet(reason: str, message: str, *, ran: bool) -> Any:
    """Return a pod that the kubelet evicted while it ran, or never admitted."""
    labels = {names.JOB_UID_LABEL: "u", names.ROLE_LABEL: "worker", names.INDEX_LABEL: "0", names.ATTEMPT_LABEL: "0"}
    meta = {"name": "fashion-worker-0", "uid": "p", "resourceVersion": "1", "labels": labels}
    ended = [{"name": "tensorflow", "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}]
    status = {"phase": "Failed", "reason": reason, "message": message, "containerStatuses": ended if ran else []}
    return summarize({"metadata": meta, "status": status})


def test_a_replica_that_exceeded_its_storage_limit_has_the_kubelets_text_and_a_remedy_and_no_log() -> None:
    text = "Pod ephemeral local storage usage exceeds the total limit of containers 100Mi. "
    evicted = ended_by_the_kubelet("Evicted", text, ran=True)
    job = failed([evicted, pod("worker-1")], runPolicy={"backoffLimit": 0})
    assert "ended with exit code 137: Evicted: Pod ephemeral local storage usage exceeds" in job.message("Failed")
    assert "raise resources.limits.ephemeral-storage" in job.message("Failed")
    assert "kubectl logs" not in job.message("Failed")
    assert job.status["failures"][-1]["reason"] == "StorageLimitExceeded"


def test_a_replica_that_its_node_never_admitted_has_the_kubelets_text_and_no_log() -> None:
    rejected = ended_by_the_kubelet("UnexpectedAdmissionError", "Allocate failed due to no GPU", ran=False)
    job = Lifecycle(BOTH)
    job.reconcile([rejected, pod("worker-1")])
    assert "Allocate failed due to no GPU" in job.message("Restarting")
    assert "kubectl logs" not in job.message("Restarting")


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        pytest.param({"signal": 9}, "killed by signal 9 (SIGKILL)", id="killed"),
        pytest.param(
            {"signal": 9, "reason": "OOMKilled"}, "OOMKilled: the container exceeded its memory limit", id="oom"
        ),
        pytest.param(
            {"exit_code": 134, "signal": 6, "message": "Extension modules: h5py.h5, numpy.linalg (total: 57)\n"},
            "killed by signal 6 (SIGABRT)",
            id="the end of faulthandler's output",
        ),
        pytest.param({"exit_code": 139, "signal": 11}, "step=7 loss=0.1", id="its own fault: the log may show it"),
    ],
)
def test_the_last_line_of_a_log_is_not_the_cause_of_a_kill(seen: dict[str, Any], text: str) -> None:
    job = Lifecycle(BOTH)
    job.reconcile([pod("worker-0", "F", **{"message": "step=6\nstep=7 loss=0.1\n", **seen}), pod("worker-1")])
    assert text in job.message("Restarting")
    assert text in job.status["failures"][-1]["message"]


def test_a_node_is_excluded_after_failures_of_two_attempts_and_not_of_one() -> None:
    job = Lifecycle("chief-0:R ps-0:R worker-0:R worker-1:R", **SERVERS)
    crashed: dict[str, Any] = {"letter": "F", "exit_code": 139, "node": "n1"}
    todo = job.reconcile([pod("chief-0"), pod("ps-0"), pod("worker-0", **crashed), pod("worker-1", **crashed)])
    assert "NodeAvoided" not in event_reasons(todo), "one incident"

    job, others = Lifecycle("chief-0:R ps-0:R worker-0:R worker-1:R", **SERVERS), [pod("chief-0"), pod("ps-0")]
    job.reconcile([*others, pod("worker-0", **crashed), pod("worker-1", node="n1")])
    todo = job.reconcile([*others, pod("worker-0-r1", node="n1"), pod("worker-1", **crashed)], after=60)
    assert "NodeAvoided" not in event_reasons(todo), "two failures of the first attempt"
    todo = job.reconcile([*others, pod("worker-0-r1", **crashed), pod("worker-1-r2", node="n1")], after=60)
    assert "NodeAvoided" in event_reasons(todo), "one of each of two attempts"


@pytest.mark.parametrize(
    "seen", [{"disrupted": True}, {"exit_code": 42}, {"exit_code": 75}], ids=["evicted", "preempted", "lost a peer"]
)
def test_a_node_is_not_excluded_for_failures_that_it_did_not_cause(seen: dict[str, Any]) -> None:
    job = Lifecycle("worker-0:R", worker={"replicas": 1}, strategy="OneDevice")
    job.reconcile([pod("worker-0", "F", node="n1", **seen)])
    job.reconcile([pod("worker-0-r1", node="n1")], after=60)
    todo = job.reconcile([pod("worker-0-r1", "F", node="n1", **seen)], after=60)
    assert "NodeAvoided" not in event_reasons(todo)
    assert "excludedNodes" not in job.status["gangs"]["training"]


SERVERS = {"strategy": "ParameterServer", "chief": {}, "ps": {"replicas": 1}, "image": "x", "command": ["y"]}


def test_the_counts_of_replicas_are_right_when_all_have_ended() -> None:
    job = Lifecycle(BOTH)
    job.reconcile("worker-0:S worker-1:R")
    before = job.status["conditions"]
    assert job.status["replicas"]["worker"]["running"] == 1
    assert job.reconcile("worker-0:S worker-1:R", after=1).status is None, "it is about to end"
    job.reconcile("worker-0:S worker-1:S", after=1)
    counts = job.status["replicas"]["worker"]
    assert counts == {"desired": 2, "pending": 0, "running": 0, "ready": 0, "succeeded": 2, "failed": 0}
    assert job.status["conditions"] == before
    assert job.reconcile("worker-0:S worker-1:S", after=1).status is None
    assert job.reconcile("", after=1).status is None, "pods that were deleted have ended even so"


def test_replicas_that_the_controller_stops_at_the_end_are_not_counted_as_running_or_failed() -> None:
    job = Lifecycle("chief-0:R ps-0:R worker-0:R", **SERVERS)
    job.reconcile("chief-0:S ps-0:R worker-0:S")
    job.reconcile("chief-0:S ps-0:R worker-0:S", after=60)
    gone = pod("ps-0", "F", exit_code=143, deleting=True)
    job.reconcile([pod("chief-0", "S"), pod("worker-0", "S"), gone], after=1)
    servers = job.status["replicas"]["ps"]
    assert (servers["running"], servers["failed"]) == (0, 0), "the controller stopped it"


def test_a_failure_in_place_keeps_what_its_launcher_reported() -> None:
    job = Lifecycle(BOTH)
    job.reconcile(BOTH, report=launcher_report())
    job.reconcile(BOTH, report=launcher_report(failure(1, message="killed by signal 9")))
    assert condition(job.status, "Running")["status"] == "True"
    assert job.status["failures"][-1]["time"] == rfc3339(NOW)
