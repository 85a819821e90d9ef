"""Deadlines: each fires by its own timer, though nothing happens, and says which field set it."""

import pytest
from support.factories import Story, created, pod, told

from tfdist_operator.observed.pod import PodSummary

BOTH = "worker-0:R worker-1:R"
START = {"runPolicy": {"startDeadlineSeconds": 60}}
ACTIVE = {"runPolicy": {"activeDeadlineSeconds": 100}}
CREATED = "2030-01-02T03:04:05Z"


def waiting(name: str = "worker-1", **fields: object) -> list[PodSummary]:
    return [pod("worker-0", created_at=CREATED), pod(name, "P", created_at=CREATED, **fields)]


def test_a_gang_that_has_not_started_in_time_fails_the_job() -> None:
    story = Story(**START)
    story.look()
    assert story.look(waiting(), after=20).requeue_after_seconds == pytest.approx(40)
    todo = story.look(waiting(), after=40)
    assert story.says("Failed") == ("True", "StartDeadlineExceeded")
    assert "gave up after 60 s (runPolicy.startDeadlineSeconds)" in story.message("Failed")
    assert told(todo) == ["Failed"]


def test_without_a_deadline_a_gang_waits_for_its_nodes_for_ever() -> None:
    story = Story()
    story.look()
    full = {"reason": "Unschedulable", "message": "0/2 nodes are available: 2 Insufficient cpu."}
    todo = story.look(waiting(**full), after=10**6)
    assert (story.status["phase"], todo.requeue_after_seconds) == ("Starting", None)
    assert story.status["summary"]["message"] == (
        "worker-1 cannot start: Unschedulable: 0/2 nodes are available: 2 Insufficient cpu."
    )


def test_a_start_that_no_node_takes_fails_with_the_schedulers_words() -> None:
    story = Story(**START)
    story.look()
    story.look(waiting(reason="Unschedulable", message="0/2 nodes are available"), after=60)
    assert story.says("Failed") == ("True", "Unschedulable")
    assert "0/2 nodes are available; gave up after 60 s" in story.message("Failed")


def test_a_quota_that_refuses_for_too_long_fails_the_job_with_the_servers_words() -> None:
    story = Story(**START)
    story.look()
    todo = story.look(refusal="exceeded quota: gpus", after=1)
    assert story.says("PodsReady") == ("False", "CreationRefused")
    assert created(todo) == ["worker-0", "worker-1"], "it is tried again"
    story.look(refusal="exceeded quota: gpus", after=60)
    assert story.says("Failed") == ("True", "CreationRefused")
    assert "exceeded quota: gpus; gave up after 60 s" in story.message("Failed")


def test_a_quota_that_lets_in_some_replicas_fails_the_job_in_time_as_well() -> None:
    story = Story(**START)
    story.look()
    story.look([pod("worker-0", created_at=CREATED)], refusal="exceeded quota", after=60)
    assert story.says("Failed") == ("True", "CreationRefused")


def test_the_wait_between_restarts_is_no_part_of_a_start() -> None:
    story = Story(BOTH, runPolicy={"startDeadlineSeconds": 5})
    story.look("worker-0:R worker-1:F")
    story.look("worker-0-r1:R worker-1-r1:R")
    todo = story.look("worker-0-r1:R worker-1-r1:F")
    story.look(after=todo.requeue_after_seconds or 0)
    assert story.status["phase"] == "Restarting"


def test_an_image_that_cannot_be_pulled_fails_after_five_minutes_without_a_deadline_of_its_own() -> None:
    story = Story()
    story.look()
    unable = {"reason": "ErrImagePull", "message": "not found"}
    assert story.look(waiting(**unable)).requeue_after_seconds == pytest.approx(300)
    story.look(waiting(**unable), after=300)
    assert story.says("Failed") == ("True", "ImageError")
    assert story.message("Failed") == (
        "spec.image: worker-1 cannot start: ErrImagePull: not found; gave up after 300 s"
    )


def test_a_container_that_cannot_be_made_is_an_error_of_the_configuration() -> None:
    story = Story()
    story.look()
    story.look(waiting(reason="CreateContainerConfigError", message='secret "x" not found'))
    assert story.says("PodsReady") == ("False", "ConfigError")


def test_an_active_deadline_ends_a_job_that_runs() -> None:
    story = Story(BOTH, **ACTIVE)
    assert story.look(BOTH, after=30).requeue_after_seconds == pytest.approx(70)
    todo = story.look(BOTH, after=70)
    assert story.says("Failed") == ("True", "ActiveDeadlineExceeded")
    assert "runPolicy.activeDeadlineSeconds" in story.message("Failed")
    assert (told(todo), created(todo)) == (["Failed"], [])


def test_an_active_deadline_ends_a_job_that_never_started() -> None:
    story = Story(**ACTIVE)
    assert story.look().requeue_after_seconds == pytest.approx(100)
    story.look("worker-0:P worker-1:P", after=100)
    assert story.says("Failed") == ("True", "ActiveDeadlineExceeded")


def test_a_restart_does_not_begin_what_a_deadline_has_ended() -> None:
    story = Story(BOTH, **ACTIVE)
    todo = story.look("worker-0:R worker-1:F", after=100)
    assert (told(todo), created(todo)) == (["Failed"], [])
    assert story.status["attempt"] == 0


def test_success_in_the_last_moment_wins_over_the_deadline() -> None:
    story = Story(BOTH, **ACTIVE)
    story.look("worker-0:S worker-1:S", after=100)
    assert story.status["phase"] == "Succeeded"


def test_a_restart_does_not_begin_the_active_time_anew() -> None:
    story = Story(BOTH, **ACTIVE)
    todo = story.look("worker-0:R worker-1:F", after=60)
    assert todo.requeue_after_seconds == pytest.approx(40)
