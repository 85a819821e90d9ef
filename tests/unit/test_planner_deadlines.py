"""Deadlines: each fires by its own timer, without a change, and its message names the field."""

from datetime import timedelta
from typing import Any

import pytest
from support.factories import Lifecycle, created, event_reasons, pod

from tfdist.observed.pod import PodSummary
from tfdist.timestamps import rfc3339

BOTH = "worker-0:R worker-1:R"
START = {"runPolicy": {"startDeadlineSeconds": 60}}
ACTIVE = {"runPolicy": {"activeDeadlineSeconds": 100}}
CREATED = "2030-01-02T03:04:05Z"


def waiting(name: str = "worker-1", **fields: object) -> list[PodSummary]:
    return [pod("worker-0", created_at=CREATED), pod(name, "P", created_at=CREATED, **fields)]


def test_a_gang_that_has_not_started_in_time_fails_the_job() -> None:
    job = Lifecycle(**START)
    job.reconcile()
    assert job.reconcile(waiting(), after=20).requeue_after_seconds == pytest.approx(10)
    assert job.reconcile(waiting(), after=10).requeue_after_seconds == pytest.approx(30)
    todo = job.reconcile(waiting(), after=30)
    assert job.condition_status("Failed") == ("True", "StartDeadlineExceeded")
    assert "gave up after 60 s (runPolicy.startDeadlineSeconds)" in job.message("Failed")
    assert event_reasons(todo) == ["Failed"]


def test_without_a_deadline_a_gang_waits_for_its_nodes_for_ever() -> None:
    job = Lifecycle()
    job.reconcile()
    full = {"reason": "Unschedulable", "message": "0/2 nodes are available: 2 Insufficient cpu."}
    todo = job.reconcile(waiting(**full), after=10**6)
    assert (job.status["phase"], todo.requeue_after_seconds) == ("Starting", None)
    assert job.status["summary"]["message"] == (
        "worker-1 cannot start: Unschedulable: 0/2 nodes are available: 2 Insufficient cpu."
    )


def test_an_unschedulable_start_fails_with_the_message_of_the_scheduler() -> None:
    job = Lifecycle(**START)
    job.reconcile()
    job.reconcile(waiting(reason="Unschedulable", message="0/2 nodes are available"), after=60)
    assert job.condition_status("Failed") == ("True", "Unschedulable")
    assert "0/2 nodes are available; gave up after 60 s" in job.message("Failed")


def test_a_quota_that_rejects_for_too_long_fails_the_job_with_the_message_of_the_api_server() -> None:
    job = Lifecycle(**START)
    job.reconcile()
    todo = job.reconcile(create_error="exceeded quota: gpus", after=1)
    assert job.condition_status("PodsReady") == ("False", "FailedCreate")
    assert created(todo) == ["worker-0", "worker-1"], "it is tried again"
    job.reconcile(create_error="exceeded quota: gpus", after=60)
    assert job.condition_status("Failed") == ("True", "FailedCreate")
    assert "exceeded quota: gpus; gave up after 60 s" in job.message("Failed")


def test_a_quota_that_lets_in_some_replicas_fails_the_job_in_time_as_well() -> None:
    job = Lifecycle(**START)
    job.reconcile()
    job.reconcile([pod("worker-0", created_at=CREATED)], create_error="exceeded quota", after=60)
    assert job.condition_status("Failed") == ("True", "FailedCreate")


def test_the_wait_between_restarts_is_no_part_of_a_start() -> None:
    job = Lifecycle(BOTH, runPolicy={"startDeadlineSeconds": 5})
    job.reconcile("worker-0:R worker-1:F")
    job.reconcile("worker-0-r1:R worker-1-r1:R")
    todo = job.reconcile("worker-0-r1:R worker-1-r1:F")
    job.reconcile(after=todo.requeue_after_seconds or 0)
    assert job.status["phase"] == "Restarting"


def test_an_image_that_cannot_be_pulled_fails_after_five_minutes_without_a_deadline_of_its_own() -> None:
    job = Lifecycle()
    job.reconcile()
    unable = {"reason": "ErrImagePull", "message": "not found"}
    assert job.reconcile(waiting(**unable)).requeue_after_seconds == pytest.approx(300)
    job.reconcile(waiting(**unable), after=300)
    assert job.condition_status("Failed") == ("True", "ImageError")
    assert job.message("Failed") == ("spec.image: worker-1 cannot start: ErrImagePull: not found; gave up after 300 s")


def test_the_deadline_of_an_image_counts_from_when_the_pod_got_its_node() -> None:
    # given a gang that has waited for nodes for an hour
    job = Lifecycle()
    job.reconcile()
    job.reconcile(after=3600)
    unable = {"reason": "ErrImagePull", "message": "registry unavailable", "scheduled_at": rfc3339(job.now)}
    # when its image cannot be pulled
    todo = job.reconcile(waiting(**unable))
    # then
    assert (job.condition_status("PodsReady"), todo.requeue_after_seconds) == (("False", "ImageError"), 300)
    job.reconcile(waiting(**unable), after=300)
    assert job.condition_status("Failed") == ("True", "ImageError")


def test_a_job_whose_deadline_passed_while_no_controller_led_is_observed_before_it_fails() -> None:
    # given a job whose pods the last controller did not create
    job = Lifecycle(**START)
    job.reconcile()
    # when the next one leads after the deadline
    job.now += timedelta(seconds=1000)
    led: dict[str, Any] = {"observed_since": rfc3339(job.now)}
    assert created(job.reconcile(**led)) == ["worker-0", "worker-1"]
    unable = {"reason": "ErrImagePull", "message": "not found"}
    assert job.reconcile(waiting(**unable), after=10, **led).requeue_after_seconds == pytest.approx(50)
    job.reconcile(waiting(**unable), after=50, **led)
    # then the job fails for its cause
    assert job.condition_status("Failed") == ("True", "ImageError")


@pytest.mark.parametrize(("limit", "observed"), [(20, 20), (600, 60)])
def test_a_late_job_is_observed_for_its_deadline_and_at_most_a_minute(limit: int, observed: int) -> None:
    job = Lifecycle(runPolicy={"startDeadlineSeconds": limit})
    job.reconcile()
    job.now += timedelta(seconds=1000)
    led: dict[str, Any] = {"observed_since": rfc3339(job.now)}
    job.reconcile(waiting(), after=observed - 1, **led)
    assert job.status["phase"] == "Starting"
    job.reconcile(waiting(), after=1, **led)
    assert job.condition_status("Failed") == ("True", "StartDeadlineExceeded")


def test_a_start_that_fails_while_a_pod_is_missing_has_the_known_cause() -> None:
    job = Lifecycle(**START)
    job.reconcile()
    job.reconcile([pod("worker-0", "P", created_at=CREATED, reason="ErrImagePull", message="not found")], after=60)
    assert job.condition_status("Failed") == ("True", "ImageError")


def test_a_container_that_cannot_be_made_is_an_error_of_the_configuration() -> None:
    job = Lifecycle()
    job.reconcile()
    job.reconcile(waiting(reason="CreateContainerConfigError", message='secret "x" not found'))
    assert job.condition_status("PodsReady") == ("False", "ConfigError")


def test_an_active_deadline_ends_a_job_that_runs() -> None:
    job = Lifecycle(BOTH, **ACTIVE)
    assert job.reconcile(BOTH, after=30).requeue_after_seconds == pytest.approx(70)
    todo = job.reconcile(BOTH, after=70)
    assert job.condition_status("Failed") == ("True", "ActiveDeadlineExceeded")
    assert "runPolicy.activeDeadlineSeconds" in job.message("Failed")
    assert (event_reasons(todo), created(todo)) == (["Failed"], [])


def test_an_active_deadline_ends_a_job_that_never_started() -> None:
    job = Lifecycle(**ACTIVE)
    job.reconcile()
    assert job.reconcile("worker-0:P worker-1:P", after=31).requeue_after_seconds == pytest.approx(69)
    job.reconcile("worker-0:P worker-1:P", after=69)
    assert job.condition_status("Failed") == ("True", "ActiveDeadlineExceeded")


def test_a_restart_does_not_begin_what_a_deadline_has_ended() -> None:
    job = Lifecycle(BOTH, **ACTIVE)
    todo = job.reconcile("worker-0:R worker-1:F", after=100)
    assert (event_reasons(todo), created(todo)) == (["Failed"], [])
    assert job.status["attempt"] == 0


def test_success_in_the_last_moment_wins_over_the_deadline() -> None:
    job = Lifecycle(BOTH, **ACTIVE)
    job.reconcile("worker-0:S worker-1:S", after=100)
    assert job.status["phase"] == "Succeeded"


def test_a_restart_does_not_reset_the_active_time() -> None:
    job = Lifecycle(BOTH, **ACTIVE)
    todo = job.reconcile("worker-0:R worker-1:F", after=60)
    assert todo.requeue_after_seconds == pytest.approx(40)
