"""Suspending and resuming at any point of a job's life."""

import pytest
from support.factories import EVALUATED, Story, condition, created, deleted, pod, told

BOTH = "worker-0:R worker-1:R"
EVALUATING = "worker-0:S worker-1:S evaluation-0:R evaluation-1:R"


def suspend(story: Story, pods: str = "", after: float = 0) -> list[str]:
    story.spec["runPolicy"] = {**story.spec.get("runPolicy", {}), "suspend": True}
    return deleted(story.look(pods, after, generation=2))


def resume(story: Story, pods: str = "") -> list[str]:
    story.spec["runPolicy"] = {**story.spec["runPolicy"], "suspend": False}
    return created(story.look(pods, generation=3))


def test_a_job_that_is_created_suspended_makes_nothing_until_it_is_resumed() -> None:
    story = Story(runPolicy={"suspend": True})
    todo = story.look()
    assert (todo.objects, todo.creates) == ((), ())
    assert story.status["phase"] == "Suspended"
    assert "attempt" not in story.status, "it has not started: all of it may still change"
    assert resume(story) == ["worker-0", "worker-1"]


@pytest.mark.parametrize("pods", ["worker-0:P worker-1:P", "worker-0:R worker-1:P", BOTH])
def test_a_suspended_jobs_pods_stop_and_the_job_stays(pods: str) -> None:
    story = Story()
    story.look()
    story.look(pods)
    assert suspend(story, pods) == ["worker-0", "worker-1"]
    assert story.status["phase"] == "Suspending"
    suspend(story)
    assert story.status["phase"] == "Suspended"
    assert story.says("Suspended") == ("True", "Suspended")
    assert story.status["summary"]["ready"] == "0/2"
    assert "runPolicy.suspend: false resumes it" in story.status["summary"]["message"]


def test_while_its_pods_stop_the_status_is_written_once_and_one_event_is_told() -> None:
    story = Story(BOTH)
    suspend(story, BOTH)
    going = [pod("worker-0", deleting=True), pod("worker-1", deleting=True)]
    for left in (going, going[1:]):
        todo = story.look(left, generation=2, seconds_since_status_write=0.1)
        assert (todo.status, told(todo), created(todo), deleted(todo)) == (None, [], [], [])


def test_to_resume_is_a_new_attempt_that_does_not_count() -> None:
    story = Story(BOTH)
    suspend(story, BOTH)
    suspend(story)
    assert resume(story) == ["worker-0-r1", "worker-1-r1"]
    assert story.status["restarts"] == {"counted": 0, "uncounted": 0, "sinceCheckpoint": 0}
    assert story.status["phase"] == "Starting"
    todo = story.look("worker-0-r1:R worker-1-r1:R", generation=3)
    assert (story.status["phase"], told(todo)) == ("Running", ["Running"])


def test_to_resume_waits_for_no_pod_that_still_saves() -> None:
    story = Story(BOTH)
    suspend(story, BOTH)
    story.spec["runPolicy"] = {"suspend": False}
    todo = story.look([pod("worker-0", deleting=True)], generation=3)
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
    assert told(todo) == ["Resumed"]


def test_what_a_replica_says_when_it_is_stopped_is_no_failure() -> None:
    story = Story(BOTH)
    suspend(story, BOTH)
    suspend(story, "worker-0:F worker-1:F")
    assert "failures" not in story.status
    assert story.status["phase"] == "Suspended"


def test_the_active_time_of_a_suspended_job_stands_still_and_begins_anew() -> None:
    story = Story(BOTH, runPolicy={"activeDeadlineSeconds": 100})
    story.look(BOTH, after=90)
    suspend(story, BOTH)
    suspend(story, after=1000)
    resume(story)
    todo = story.look("worker-0-r1:R worker-1-r1:R", after=60, generation=3)
    assert story.status["phase"] == "Running"
    assert todo.requeue_after_seconds == pytest.approx(40)
    story.look("worker-0-r1:R worker-1-r1:R", after=41, generation=3)
    assert story.says("Failed") == ("True", "ActiveDeadlineExceeded")


def test_a_wait_for_the_next_attempt_is_forgotten_when_the_job_is_resumed() -> None:
    story = Story(BOTH)
    story.look("worker-0:R worker-1:F")
    story.look("worker-0-r1:R worker-1-r1:R")
    assert created(story.look("worker-0-r1:R worker-1-r1:F")) == []
    suspend(story)
    assert resume(story) == ["worker-0-r3", "worker-1-r3"]


def test_workers_can_be_added_while_the_job_is_suspended() -> None:
    story = Story(BOTH)
    suspend(story, BOTH)
    story.spec["worker"] = {"replicas": 3}
    assert resume(story) == ["worker-0-r1", "worker-1-r1", "worker-2-r1"]


@pytest.mark.parametrize(("workers", "deletes"), [(1, ["worker-0", "worker-1"]), (3, ["worker-0", "worker-1"])])
def test_a_resize_between_two_looks_restarts_the_gang_for_all_have_to_be_told(workers: int, deletes: list[str]) -> None:
    story = Story(BOTH)
    story.spec["worker"] = {"replicas": workers}
    todo = story.look(BOTH, generation=4)
    assert created(todo) == [f"worker-{i}-r1" for i in range(workers)]
    assert sorted(deleted(todo)) == deletes
    assert f"worker: {workers} replicas instead of 2" in story.message("Restarting")
    assert story.status["restarts"]["counted"] == 0


def test_a_template_that_is_changed_while_the_job_runs_waits_for_the_next_attempt_and_the_status_says_so() -> None:
    story = Story(BOTH)
    story.spec = {"image": "team/train:8"}
    todo = story.look(BOTH, generation=2)
    assert (created(todo), deleted(todo)) == ([], [])
    assert "its pods are as they were before the last change: suspend and resume it" in story.message("Running")
    assert story.look(BOTH, generation=2).status is None
    story.look("worker-0:R worker-1:F", generation=2)
    story.look("worker-0-r1:R worker-1-r1:R", generation=2)
    assert "before the last change" not in story.message("Running")


def test_limits_that_are_changed_while_the_job_runs_are_no_change_of_its_pods() -> None:
    story = Story(BOTH)
    story.spec = {"runPolicy": {"backoffLimit": 9}}
    story.look(BOTH, generation=2)
    assert "before the last change" not in story.message("Running")


def test_evaluation_stops_and_is_resumed_without_training_again() -> None:
    story = Story(BOTH, **EVALUATED)
    story.look("worker-0:S worker-1:S")
    story.look(EVALUATING)
    assert suspend(story, EVALUATING) == ["evaluation-0", "evaluation-1"]
    suspend(story, "worker-0:S worker-1:S")
    assert story.status["phase"] == "Suspended"
    assert resume(story, "worker-0:S worker-1:S") == ["evaluation-0-r1", "evaluation-1-r1"]
    assert story.status["phase"] == "Evaluating"
    assert "attempt" in story.status
    assert condition(story.status, "Running")["reason"] == "TrainingSucceeded"


def test_the_time_to_evaluate_begins_anew_when_the_job_is_resumed() -> None:
    story = Story(BOTH, **EVALUATED)
    story.look("worker-0:S worker-1:S")
    suspend(story)
    suspend(story, after=100000)
    resume(story)
    assert story.status["phase"] == "Evaluating"
    assert story.look(generation=3, after=1).requeue_after_seconds == pytest.approx(599)


def test_a_job_that_has_done_its_work_ends_though_it_is_suspended() -> None:
    story = Story(BOTH)
    suspend(story, "worker-0:S worker-1:R")
    assert story.status["phase"] == "Succeeded"


def test_training_that_succeeded_as_the_job_was_suspended_is_not_repeated() -> None:
    story = Story(BOTH, **EVALUATED)
    suspend(story, "worker-0:S worker-1:S")
    assert story.status["phase"] == "Suspended"
    assert resume(story) == ["evaluation-0", "evaluation-1"]


def test_a_corrected_job_that_is_suspended_is_not_called_invalid_any_more() -> None:
    story = Story(runPolicy={"suspend": True})
    story.look(job=None, problems=("spec.x: wrong",))
    assert story.status["phase"] == "Invalid"
    story.look(generation=2)
    assert story.status["phase"] == "Suspended"
    assert story.says("Invalid") == ("False", "Corrected")
