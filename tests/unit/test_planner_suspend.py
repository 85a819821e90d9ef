"""Suspend and resume at any point of the life cycle."""

import pytest
from support.factories import (
    EVALUATED,
    Lifecycle,
    condition,
    created,
    deleted,
    event_reasons,
    pod,
    report,
    termination_message,
)

from tfdist.messages import count
from tfdist.observed.pod import PodSummary

BOTH = "worker-0:R worker-1:R"
EVALUATING = "worker-0:S worker-1:S evaluation-0:R evaluation-1:R"


def suspend(story: Lifecycle, pods: str = "", after: float = 0) -> list[str]:
    story.spec["runPolicy"] = {**story.spec.get("runPolicy", {}), "suspend": True}
    return deleted(story.reconcile(pods, after, generation=2))


def resume(story: Lifecycle, pods: str = "") -> list[str]:
    story.spec["runPolicy"] = {**story.spec["runPolicy"], "suspend": False}
    return created(story.reconcile(pods, generation=3))


def test_a_job_that_is_created_suspended_makes_nothing_until_it_is_resumed() -> None:
    story = Lifecycle(runPolicy={"suspend": True})
    todo = story.reconcile()
    assert (todo.objects, todo.creates) == ((), ())
    assert story.status["phase"] == "Suspended"
    assert "attempt" not in story.status, "it has not started: all of it may still change"
    assert resume(story) == ["worker-0", "worker-1"]


@pytest.mark.parametrize("pods", ["worker-0:P worker-1:P", "worker-0:R worker-1:P", BOTH])
def test_a_suspended_jobs_pods_stop_and_the_job_stays(pods: str) -> None:
    story = Lifecycle()
    story.reconcile()
    story.reconcile(pods)
    assert suspend(story, pods) == ["worker-0", "worker-1"]
    assert story.status["phase"] == "Suspending"
    suspend(story)
    assert story.status["phase"] == "Suspended"
    assert story.condition_status("Suspended") == ("True", "Suspended")
    assert story.status["summary"]["ready"] == "0/2"
    assert "runPolicy.suspend: false resumes it" in story.status["summary"]["message"]


def test_a_suspension_writes_the_status_once_and_publishes_one_event() -> None:
    story = Lifecycle(BOTH)
    suspend(story, BOTH)
    going = [pod("worker-0", deleting=True), pod("worker-1", deleting=True)]
    for left in (going, going[1:]):
        todo = story.reconcile(left, generation=2, throttled_seconds=9.9)
        assert (todo.status, event_reasons(todo), created(todo), deleted(todo)) == (None, [], [], [])


def test_to_resume_is_a_new_attempt_that_does_not_count() -> None:
    story = Lifecycle(BOTH)
    suspend(story, BOTH)
    suspend(story)
    assert resume(story) == ["worker-0-r1", "worker-1-r1"]
    assert story.status["restarts"] == {"counted": 0, "uncounted": 0, "sinceCheckpoint": 0}
    assert story.status["phase"] == "Starting"
    todo = story.reconcile("worker-0-r1:R worker-1-r1:R", generation=3)
    assert (story.status["phase"], event_reasons(todo)) == ("Running", ["Running"])


def test_to_resume_waits_for_no_pod_that_still_saves() -> None:
    story = Lifecycle(BOTH)
    suspend(story, BOTH)
    story.spec["runPolicy"] = {"suspend": False}
    todo = story.reconcile([pod("worker-0", deleting=True)], generation=3)
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
    assert event_reasons(todo) == ["Resumed"]


def test_the_termination_message_of_a_suspended_replica_is_no_failure() -> None:
    story = Lifecycle(BOTH)
    suspend(story, BOTH)
    suspend(story, "worker-0:F worker-1:F")
    assert "failures" not in story.status
    assert story.status["phase"] == "Suspended"


def test_the_active_time_of_a_suspended_job_ends_and_starts_again_with_the_resume() -> None:
    story = Lifecycle(BOTH, runPolicy={"activeDeadlineSeconds": 100})
    story.reconcile(BOTH, after=90)
    suspend(story, BOTH)
    suspend(story, after=1000)
    resume(story)
    todo = story.reconcile("worker-0-r1:R worker-1-r1:R", after=60, generation=3)
    assert story.status["phase"] == "Running"
    assert todo.requeue_after_seconds == pytest.approx(40)
    story.reconcile("worker-0-r1:R worker-1-r1:R", after=41, generation=3)
    assert story.condition_status("Failed") == ("True", "ActiveDeadlineExceeded")


def test_a_wait_for_the_next_attempt_is_forgotten_when_the_job_is_resumed() -> None:
    story = Lifecycle(BOTH)
    story.reconcile("worker-0:R worker-1:F")
    story.reconcile("worker-0-r1:R worker-1-r1:R")
    assert created(story.reconcile("worker-0-r1:R worker-1-r1:F")) == []
    suspend(story)
    assert resume(story) == ["worker-0-r3", "worker-1-r3"]


def test_workers_can_be_added_while_the_job_is_suspended() -> None:
    story = Lifecycle(BOTH)
    suspend(story, BOTH)
    story.spec["worker"] = {"replicas": 3}
    assert resume(story) == ["worker-0-r1", "worker-1-r1", "worker-2-r1"]


@pytest.mark.parametrize(("workers", "deletes"), [(1, ["worker-0", "worker-1"]), (3, ["worker-0", "worker-1"])])
def test_a_resize_between_two_reconciles_restarts_the_gang_for_every_member_needs_the_new_size(
    workers: int, deletes: list[str]
) -> None:
    story = Lifecycle(BOTH)
    story.spec["worker"] = {"replicas": workers}
    todo = story.reconcile(BOTH, generation=4)
    assert created(todo) == [f"worker-{i}-r1" for i in range(workers)]
    assert sorted(deleted(todo)) == deletes
    assert f"worker: {count(workers, 'replica')} instead of 2" in story.message("Restarting")
    assert story.status["restarts"]["counted"] == 0


def test_a_changed_template_waits_for_the_next_attempt_and_the_status_reports_it() -> None:
    story = Lifecycle(BOTH)
    story.spec = {"image": "team/train:8"}
    todo = story.reconcile(BOTH, generation=2)
    assert (created(todo), deleted(todo)) == ([], [])
    used, applied = "specification of generation 1", "the next attempt applies generation 2"
    assert f"running pods use the {used}; {applied}: to apply it now, set runPolicy" in story.message("Running")
    assert story.reconcile(BOTH, generation=2).status is None
    story.reconcile("worker-0:R worker-1:F", generation=2)
    story.reconcile("worker-0-r1:R worker-1-r1:R", generation=2)
    assert "running pods use" not in story.message("Running")


def test_limits_that_are_changed_while_the_job_runs_are_no_change_of_its_pods() -> None:
    story = Lifecycle(BOTH)
    story.spec = {"runPolicy": {"backoffLimit": 9}}
    story.reconcile(BOTH, generation=2)
    assert "running pods use" not in story.message("Running")


def test_evaluation_stops_and_is_resumed_without_training_again() -> None:
    story = Lifecycle(BOTH, **EVALUATED)
    story.reconcile("worker-0:S worker-1:S")
    story.reconcile(EVALUATING)
    assert suspend(story, EVALUATING) == ["evaluation-0", "evaluation-1"]
    suspend(story, "worker-0:S worker-1:S")
    assert story.status["phase"] == "Suspended"
    assert resume(story, "worker-0:S worker-1:S") == ["evaluation-0-r1", "evaluation-1-r1"]
    assert story.status["phase"] == "Evaluating"
    assert "attempt" in story.status
    assert condition(story.status, "Running")["reason"] == "TrainingSucceeded"


def test_the_evaluation_deadline_starts_again_when_the_job_is_resumed() -> None:
    spec = EVALUATED | {"evaluation": {"mode": "AfterTraining", "deadlineSeconds": 600}}
    story = Lifecycle(BOTH, **spec)
    story.reconcile("worker-0:S worker-1:S")
    suspend(story)
    suspend(story, after=100000)
    resume(story)
    assert story.status["phase"] == "Evaluating"
    assert story.reconcile(generation=3, after=1).requeue_after_seconds == pytest.approx(599)


def test_a_job_that_has_done_its_work_ends_though_it_is_suspended() -> None:
    story = Lifecycle(BOTH)
    suspend(story, "worker-0:S worker-1:R")
    assert story.status["phase"] == "Succeeded"


def test_training_that_succeeded_as_the_job_was_suspended_is_not_repeated() -> None:
    story = Lifecycle(BOTH, **EVALUATED)
    suspend(story, "worker-0:S worker-1:S")
    assert story.status["phase"] == "Suspended"
    assert resume(story) == ["evaluation-0", "evaluation-1"]


def test_a_corrected_job_that_is_suspended_is_no_longer_invalid() -> None:
    story = Lifecycle(runPolicy={"suspend": True})
    story.reconcile(job=None, problems=("spec.x: wrong",))
    assert story.status["phase"] == "Invalid"
    story.reconcile(generation=2)
    assert story.status["phase"] == "Suspended"
    assert story.condition_status("Invalid") == ("False", "SpecValid")


def saved(name: str, step: int, code: int) -> PodSummary:
    """Return a pod that saved a checkpoint when it was terminated."""
    message = termination_message(step=step, lastCheckpoint={"step": step, "path": f"/ckpt/{step}"})
    return pod(name, "S" if code == 0 else "F", exit_code=code, deleting=True, message=message)


@pytest.mark.parametrize("code", [0, 42])
@pytest.mark.parametrize("throttled", [0.0, 9.9])
def test_the_last_checkpoint_of_a_suspended_job_is_the_one_that_its_replicas_saved_at_the_end(
    code: int, throttled: float
) -> None:
    story = Lifecycle(BOTH, successPolicy="AllWorkers")
    story.reconcile(BOTH, report=report(5, last_checkpoint={"step": 4, "path": "/ckpt/4"}))
    suspend(story, BOTH)
    story.reconcile([saved("worker-0", 7, code)], generation=2, throttled_seconds=throttled)
    story.reconcile("", generation=2)
    assert story.status["phase"] == "Suspended"
    assert story.status["progress"]["lastCheckpoint"] == {"step": 7, "path": "/ckpt/7"}
    assert story.status["progress"]["step"] == 7


def test_a_crash_after_a_save_keeps_its_checkpoint_and_the_reported_step() -> None:
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, report=report(5, last_checkpoint={"step": 4, "path": "/ckpt/4"}))
    suspend(story, BOTH)
    story.reconcile([saved("worker-0", 7, 137)], generation=2)
    assert (story.status["progress"]["lastCheckpoint"]["step"], story.status["progress"]["step"]) == (7, 5)


def test_the_pods_before_the_last_leader_do_not_report_the_last_checkpoint() -> None:
    story = Lifecycle(BOTH)
    suspend(story, BOTH)
    suspend(story)
    resume(story)
    pods = [saved("worker-0", 7, 42), pod("worker-0-r1"), pod("worker-1-r1")]
    reset = report(2, attempt=1, last_checkpoint={"step": 1, "path": "/ckpt/1"})
    story.reconcile(pods, generation=3, report=reset)
    assert story.status["progress"]["lastCheckpoint"]["step"] == 1
