"""Replicas that complete their work within the grace period of a suspension: their success is not lost."""

from typing import Any

import pytest
from support.factories import EVALUATED, Lifecycle, created, deleted, event_reasons, pod

from tfdist.observed.pod import PodSummary

BOTH = "worker-0:R worker-1:R"


def suspend(story: Lifecycle, pods: str) -> list[str]:
    story.spec["runPolicy"] = {"suspend": True}
    return deleted(story.reconcile(pods, generation=2))


def resume(story: Lifecycle) -> list[str]:
    story.spec["runPolicy"] = {"suspend": False}
    return created(story.reconcile(generation=3))


def going(name: str, letter: str = "R", **fields: Any) -> PodSummary:
    """Return a pod that the suspension is deleting."""
    return pod(name, letter, deleting=True, **fields)


def suspended_with(policy: str, pods: str = BOTH) -> Lifecycle:
    """Return the life of a running job with this success policy that is being suspended."""
    story = Lifecycle(BOTH, successPolicy=policy)
    suspend(story, pods)
    return story


@pytest.mark.parametrize(
    ("policy", "ends"),
    [
        ("Chief", [going("worker-0", "S"), going("worker-1")]),
        ("AllWorkers", [going("worker-0", "S"), going("worker-1", "S")]),
    ],
)
def test_a_job_that_completes_its_work_within_the_grace_period_of_a_suspension_has_succeeded(
    policy: str, ends: list[PodSummary]
) -> None:
    # given a running job that is being suspended
    story = suspended_with(policy)
    # when the replicas of its success policy end with exit code 0
    todo = story.reconcile(ends, generation=2)
    # then the job has succeeded, and is neither suspended nor resumed
    assert story.status["phase"] == "Succeeded"
    assert story.condition_status("Suspended") == ("False", "JobFinished")
    assert event_reasons(todo) == ["Succeeded"]


@pytest.mark.parametrize("code", [42, 143, 137])
@pytest.mark.parametrize("policy", ["Chief", "AllWorkers"])
def test_a_job_whose_replicas_save_or_are_killed_is_suspended(policy: str, code: int) -> None:
    story = suspended_with(policy)
    story.reconcile([going(f"worker-{i}", "F", exit_code=code) for i in range(2)], generation=2)
    assert story.status["phase"] == "Suspended"
    assert resume(story) == ["worker-0-r1", "worker-1-r1"]


def test_a_job_of_which_only_some_workers_end_with_0_is_suspended_and_all_of_them_start_again() -> None:
    story = suspended_with("AllWorkers")
    story.reconcile([going("worker-0", "S"), going("worker-1")], generation=2)
    story.reconcile([going("worker-1", "F", exit_code=42)], generation=2)
    assert story.status["phase"] == "Suspended"
    assert resume(story) == ["worker-0-r1", "worker-1-r1"]


def test_a_success_during_a_suspension_is_stored_at_once_for_another_process() -> None:
    # given a job that is being suspended, and a status that may not be written for its counters
    story = suspended_with("AllWorkers")
    # when one worker ends with 0 and is removed, and another process observes the end of the other worker
    story.reconcile([going("worker-0", "S"), going("worker-1")], generation=2, throttled_seconds=9.9)
    story.reconcile([going("worker-1", "S")], generation=2, completed={})
    # then no success is lost
    assert story.status["phase"] == "Succeeded"


def test_workers_that_ended_before_the_suspension_count() -> None:
    story = suspended_with("AllWorkers", "worker-0:S worker-1:R")
    story.reconcile([going("worker-1", "S")], generation=2)
    assert story.status["phase"] == "Succeeded"


def test_a_failure_rule_does_not_apply_to_a_replica_that_the_suspension_ends() -> None:
    # given a job that ignores the exit code of a signal
    rule = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [143]}}
    story = Lifecycle(BOTH, failurePolicy={"rules": [rule]})
    # when its suspension ends all replicas so
    suspend(story, BOTH)
    story.reconcile([going(f"worker-{i}", "F", exit_code=143) for i in range(2)], generation=2)
    # then the job has not succeeded
    assert story.status["phase"] == "Suspended"


def test_training_that_succeeds_within_the_grace_period_is_not_repeated() -> None:
    story = Lifecycle(BOTH, **EVALUATED)
    suspend(story, BOTH)
    story.reconcile([going("worker-0", "S"), going("worker-1", "S")], generation=2)
    assert story.status["phase"] == "Suspended"
    assert resume(story) == ["evaluation-0", "evaluation-1"]


def test_a_job_that_is_resumed_before_its_pods_have_ended_does_not_count_their_end() -> None:
    story = suspended_with("AllWorkers")
    story.spec["runPolicy"] = {"suspend": False}
    ending = [going("worker-0", "F", exit_code=42), going("worker-1")]
    todo = story.reconcile(ending, generation=3, launcher_key="new")
    assert (created(todo), event_reasons(todo)) == (["worker-0-r1", "worker-1-r1"], ["Resumed"])
    assert story.status["restarts"]["counted"] == 0
    assert "failures" not in story.status
    assert created(story.reconcile([*ending, pod("worker-0-r1"), pod("worker-1-r1")], generation=3)) == []
    assert story.status["attempt"] == 1
