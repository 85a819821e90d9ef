"""The root cause when replicas fail because they lost a peer."""

from datetime import timedelta
from typing import Any

import pytest
from support.factories import NOW, planned, pod, report, stored

from tfdist.observed.job_view import ProbeResult
from tfdist.planner import Plan


def test_a_lost_peer_waits_a_moment_for_the_failure_that_it_followed_from() -> None:
    running = stored("worker-0:R worker-1:R")
    bereaved = pod("worker-0", "F", exit_code=75, finished_at="2030-01-02T03:04:04Z")
    early = planned([bereaved, pod("worker-1", "R")], running)
    assert (early.creates, early.requeue_after_seconds) == ((), 3.0)
    assert early.status is not None
    assert (early.status["phase"], early.status.get("failures")) == ("Running", None)

    killed = pod("worker-1", "F", exit_code=137, finished_at="2030-01-02T03:04:05Z")
    assert root_cause_of(planned([bereaved, killed], running)) == "Crash"
    later = NOW + timedelta(seconds=3)
    late = planned([bereaved, pod("worker-1", "R")], running, now=later, failure_seen_at=early.failure_seen_at)
    assert root_cause_of(late) == "PeerLost"


def test_an_error_that_may_be_the_loss_of_a_peer_waits_for_it_too() -> None:
    running = stored("worker-0:R worker-1:R")
    aborted = pod("worker-0", "F", exit_code=1, message="UnavailableError: Collective ops is aborted by: Socket closed")
    early = planned([aborted, pod("worker-1", "R")], running)
    assert (early.creates, early.requeue_after_seconds) == ((), 3.0)

    killed = pod("worker-1", "F", exit_code=137, finished_at="2030-01-02T03:04:05Z")
    assert root_cause_of(planned([aborted, killed], running)) == "Crash"
    later = NOW + timedelta(seconds=3)
    late = planned([aborted, pod("worker-1", "R")], running, now=later, failure_seen_at=early.failure_seen_at)
    assert root_cause_of(late) == "ApplicationError"


def test_a_pod_that_was_deleted_is_the_cause_of_an_error_that_may_be_the_loss_of_a_peer() -> None:
    aborted = pod("worker-0", "F", exit_code=1, message="UnavailableError: Socket closed")
    assert root_cause_of(planned([aborted], stored("worker-0:R worker-1:R"))) == "Disruption"


@pytest.mark.parametrize("finished_at", ["2030-01-02T03:04:07Z", "2030-01-02T03:04:01Z", ""])
def test_the_grace_period_for_the_root_cause_does_not_depend_on_the_clock_of_the_node(finished_at: str) -> None:
    running = stored("worker-0:R worker-1:R")
    pods = [pod("worker-0", "F", exit_code=75, finished_at=finished_at), pod("worker-1", "R")]
    first = planned(pods, running)
    assert (first.creates, first.requeue_after_seconds) == ((), 3.0)
    second = planned(pods, running, now=NOW + timedelta(seconds=2), failure_seen_at=first.failure_seen_at)
    assert (second.creates, second.requeue_after_seconds) == ((), 1.0)
    assert second.failure_seen_at == first.failure_seen_at


def test_a_peer_that_does_not_answer_is_the_root_cause_and_a_disruption_that_does_not_count() -> None:
    seen: Any = {"spec": {"worker": {"replicas": 3}}, "report": report(3)}
    running = stored("worker-0:R worker-1:R worker-2:R", **seen)
    pods = [pod("worker-0", "F", exit_code=75), pod("worker-1", "R"), pod("worker-2", "R")]
    seen["failure_seen_at"] = {"fashion-worker-0": NOW - timedelta(seconds=3)}
    probed = planned(pods, running, **seen)
    assert ([q.index for q in probed.probes], probed.creates) == ([1, 2], ())

    todo = planned(pods, running, **seen, probe_result=ProbeResult(probed.probe_id, "worker-2", "", ("worker-2",)))
    assert todo.status is not None
    first, cause = todo.status["failures"]
    assert (first["reason"], first["index"], cause["reason"], cause["index"]) == ("Secondary", 0, "Disruption", 2)
    assert (cause["counted"], todo.status["restarts"]["counted"], todo.status["restarts"]["uncounted"]) == (False, 0, 1)
    assert "worker-2 (pod fashion-worker-2, node node-a) is unresponsive" in cause["message"]

    answered = planned(pods, running, **seen, probe_result=ProbeResult(probed.probe_id, "worker-1", ""))
    assert root_cause_of(answered) == "PeerLost"


def root_cause_of(todo: Plan) -> str:
    assert todo.status is not None
    return next(str(f["reason"]) for f in todo.status["failures"] if f["rootCause"])
