"""The life cycle of a job as plans: given an observed state, the plan has exactly these actions."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from support.factories import (
    EVALUATED,
    FIRST_ATTEMPT,
    INSTALLATION,
    NOW,
    RESULT,
    condition,
    planned,
    pod,
    report,
    stored,
    termination_message,
    view,
)

from tfdist.api.status import TFDistJobStatus
from tfdist.observed.pod import PodSummary
from tfdist.planner import Plan, plan

RUNNING = stored("worker-0:R worker-1:R")
TRAINING_SUCCEEDED = stored("worker-0:S worker-1:S", RUNNING, spec=EVALUATED)


def created(plan_result: object) -> list[str]:
    return [m["metadata"]["name"] for m in plan_result.creates]  # type: ignore[attr-defined]


def service_of(plan_result: object) -> dict[str, Any] | None:
    return next((o for o in plan_result.objects if o["kind"] == "Service"), None)  # type: ignore[attr-defined]


def test_a_new_job_gets_its_service_and_all_pods_at_once() -> None:
    todo = planned()
    assert [o["kind"] for o in todo.objects] == ["Service", "NetworkPolicy"]
    assert todo.objects[0]["spec"]["clusterIP"] == "None"
    assert created(todo) == ["fashion-worker-0", "fashion-worker-1"]
    assert todo.status is not None
    assert todo.status["phase"] == "Starting"


def test_a_chief_leads_the_gang_and_comes_first() -> None:
    todo = planned(spec={"chief": {}})
    assert created(todo) == ["fashion-chief-0", "fashion-worker-0", "fashion-worker-1"]


def test_only_the_missing_pod_is_created_after_a_crash_in_between() -> None:
    todo = planned("worker-0:P", stored())
    assert created(todo) == ["fashion-worker-1"]


def test_a_job_with_all_replicas_running_is_running_and_publishes_one_event() -> None:
    todo = planned("worker-0:R worker-1:R", stored())
    assert todo.status is not None
    assert (todo.status["phase"], todo.status["startTime"]) == ("Running", "2030-01-02T03:04:05Z")
    assert [e.reason for e in todo.events] == ["Running"]
    assert todo.status["summary"]["ready"] == "2/2"


def test_an_idle_job_is_left_alone() -> None:
    todo = planned("worker-0:R worker-1:R", RUNNING)
    assert (todo.status, todo.creates, todo.deletes, todo.events) == (None, (), (), ())


def test_progress_is_written_when_the_last_write_is_long_ago() -> None:
    todo = planned("worker-0:R worker-1:R", RUNNING, report=report(5), throttled_seconds=0.0)
    assert todo.status is not None
    assert todo.status["progress"]["percent"] == 50
    assert todo.settled, "no action follows from this write"


def test_the_start_of_all_replicas_is_written_at_once_and_not_as_counters_alone() -> None:
    todo = planned("worker-0:R worker-1:R", stored(), report=report(5), throttled_seconds=6.0)
    assert todo.status is not None
    assert not todo.settled


def test_nothing_follows_from_the_status_of_a_job_that_starts_and_of_one_that_runs() -> None:
    """Given a job; when it starts and when all replicas run; then a plan from the new status has nothing to do."""
    new = [pod(f"worker-{index}", "P", node="", created_at="2030-01-02T03:04:05Z") for index in range(2)]
    running = [pod("worker-0"), pod("worker-1")]
    no_pods: list[PodSummary] = []
    for pods, then, status in ((no_pods, new, {}), (running, running, stored())):
        todo = planned(pods, status)
        assert todo.settled
        following = planned(then, todo.status, completed=todo.completed)
        actions = (following.status, following.creates, following.deletes, following.patches, following.events)
        assert actions == (None, (), (), (), ())


@pytest.mark.parametrize(
    "todo",
    [
        pytest.param(lambda: planned("worker-0:R", FIRST_ATTEMPT), id="one replica is missing"),
        pytest.param(lambda: planned("", FIRST_ATTEMPT, create_error="exceeded quota"), id="a creation was rejected"),
        pytest.param(lambda: planned("worker-0:R worker-1:F", RUNNING), id="a replica has failed"),
        pytest.param(lambda: planned("worker-0:S worker-1:R", RUNNING), id="training has ended"),
        pytest.param(lambda: planned(spec=EVALUATED | {"evaluation": {"mode": "Continuous"}}), id="two gangs"),
    ],
)
def test_the_job_is_planned_again_after_any_other_write_of_its_status(todo: Callable[[], Plan]) -> None:
    assert not todo().settled


def test_progress_alone_is_written_at_the_next_interval_by_a_requeue() -> None:
    todo = planned("worker-0:R worker-1:R", RUNNING, report=report(5), throttled_seconds=6.0)
    assert todo.status is None
    assert todo.requeue_after_seconds == pytest.approx(6.0)


def test_a_report_of_an_earlier_attempt_is_ignored() -> None:
    status = stored("worker-0:F worker-1:R", RUNNING)
    todo = planned("worker-0-r1:R worker-1-r1:R", status, report=report(5, attempt=0))
    assert todo.status is not None
    assert "progress" not in todo.status


def test_the_chiefs_success_ends_a_job_without_evaluation() -> None:
    last = pod("worker-0", "S", message=termination_message(step=10))
    todo = planned([last, pod("worker-1")], RUNNING)
    assert todo.status is not None
    assert todo.status["phase"] == "Succeeded"
    assert todo.status["completionTime"]
    assert [e.reason for e in todo.events] == ["Succeeded"]
    assert todo.deletes == ()


def test_success_wins_over_a_failure_in_the_same_reconcile() -> None:
    assert stored("worker-0:S worker-1:F", RUNNING)["phase"] == "Succeeded"


def test_evaluation_follows_training_on_as_many_replicas_without_a_new_service() -> None:
    todo = planned("worker-0:S worker-1:S", RUNNING, spec=EVALUATED)
    assert todo.status is not None
    assert todo.status["phase"] == "Evaluating"
    assert created(todo) == ["fashion-evaluation-0", "fashion-evaluation-1"]
    service = service_of(todo)
    assert service is not None
    assert service["spec"]["selector"]["tfdist.dev/address-generation"] == "0", "as for training: nothing is changed"


def test_the_evaluations_result_is_the_final_one() -> None:
    pods = [
        pod("worker-0", "S"),
        pod("worker-1", "S"),
        pod("evaluation-0", "S", message=termination_message(evaluation=RESULT)),
        pod("evaluation-1", "S"),
    ]
    status = stored(pods, TRAINING_SUCCEEDED, spec=EVALUATED)
    assert status["phase"] == "Succeeded"
    assert status["evaluation"]["final"] == RESULT
    assert status["summary"]["metric"] == "accuracy=0.9000"


def test_training_that_succeeded_stays_recorded_after_its_pods_are_deleted() -> None:
    todo = planned("evaluation-0:R evaluation-1:R", TRAINING_SUCCEEDED, spec=EVALUATED)
    assert todo.creates == ()
    assert todo.status is not None
    assert todo.status["phase"] == "Evaluating"


def test_an_evaluation_that_fails_is_repeated_under_new_names_and_addresses() -> None:
    status = stored("evaluation-0:R evaluation-1:R", TRAINING_SUCCEEDED, spec=EVALUATED)
    todo = planned("evaluation-0:F evaluation-1:R", status, spec=EVALUATED)
    assert created(todo) == ["fashion-evaluation-0-r1", "fashion-evaluation-1-r1"]
    assert todo.deletes == ("fashion-evaluation-1",)
    service = service_of(todo)
    assert service is not None
    assert service["spec"]["selector"]["tfdist.dev/address-generation"] == "1"


@pytest.mark.parametrize(("on_failure", "phase"), [("Warn", "Succeeded"), ("FailJob", "Failed")])
def test_a_failed_evaluation_ends_the_job_as_its_on_failure_sets(on_failure: str, phase: str) -> None:
    spec = EVALUATED | {"evaluation": {"mode": "AfterTraining", "onFailure": on_failure}}
    bad = pod("evaluation-0", "F", exit_code=66, message=termination_message(message="no file matches /data/x"))
    status = stored([bad, pod("evaluation-1")], TRAINING_SUCCEEDED, spec=spec)
    assert status["phase"] == phase
    assert "no file matches /data/x" in condition(status, "Evaluated")["message"]


@pytest.mark.parametrize(
    ("why", "worker", "counted", "uncounted"),
    [
        ("a crash counts", pod("worker-1", "F", exit_code=137), 1, 0),
        ("an unknown code counts", pod("worker-1", "F", exit_code=3), 1, 0),
        ("memory counts", pod("worker-1", "F", exit_code=137, reason="OOMKilled"), 1, 0),
        ("an eviction does not", pod("worker-1", "F", exit_code=137, disrupted=True), 0, 1),
        ("a stop on notice does not", pod("worker-1", "F", exit_code=42), 0, 1),
        ("a deletion does not", pod("worker-1", "R", deleting=True), 0, 1),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_any_failure_restarts_the_whole_gang(why: str, worker: object, counted: int, uncounted: int) -> None:
    todo = planned([pod("worker-0"), worker], RUNNING)
    assert todo.status is not None, why
    assert todo.status["restarts"] == {"counted": counted, "uncounted": uncounted, "sinceCheckpoint": counted}
    assert created(todo) == ["fashion-worker-0-r1", "fashion-worker-1-r1"]
    assert "fashion-worker-0" in todo.deletes
    assert todo.status["phase"] == "Restarting"


def test_a_running_pod_that_was_deleted_is_a_disruption() -> None:
    todo = planned("worker-0:R", RUNNING)
    assert todo.status is not None
    assert todo.status["restarts"]["uncounted"] == 1
    assert "worker-1" in condition(todo.status, "Restarting")["message"]


def test_the_failure_of_a_peer_is_never_the_root_cause_if_there_is_another() -> None:
    lost = pod("worker-0", "F", exit_code=75, finished_at="2030-01-02T03:00:00Z")
    crashed = pod("worker-1", "F", exit_code=139, finished_at="2030-01-02T03:00:09Z")
    failures = stored([lost, crashed], RUNNING)["failures"]
    assert [(f["pod"], f["reason"], f["rootCause"]) for f in failures] == [
        ("fashion-worker-0", "Secondary", False),
        ("fashion-worker-1", "Crash", True),
    ]


@pytest.mark.parametrize("code", [64, 65, 66, 78, 126, 127])
def test_a_user_error_fails_the_job_at_once_with_its_message(code: int) -> None:
    failed = pod(
        "worker-1", "F", exit_code=code, message=termination_message(message="training.config.epochs: not a number")
    )
    status = stored([pod("worker-0"), failed], RUNNING)
    assert status["phase"] == "Failed"
    assert condition(status, "Failed")["reason"] == "UserError"
    assert "training.config.epochs: not a number" in status["summary"]["message"]


def test_the_limit_of_restarts_fails_the_job_with_the_last_cause() -> None:
    status = stored("worker-0:R worker-1:F", RUNNING, spec={"runPolicy": {"backoffLimit": 0}})
    assert condition(status, "Failed")["reason"] == "BackoffLimitExceeded"
    assert "exit code 137" in condition(status, "Failed")["message"]


def test_the_second_counted_restart_waits_and_is_requeued() -> None:
    first = stored("worker-0:R worker-1:F", RUNNING)
    again = stored("worker-0-r1:R worker-1-r1:R", first)
    todo = planned("worker-0-r1:R worker-1-r1:F", again)
    assert todo.creates == ()
    assert todo.requeue_after_seconds is not None
    assert 7.0 <= todo.requeue_after_seconds <= 10.0
    assert todo.status is not None
    later = planned("", todo.status, now=NOW + timedelta(seconds=10))
    assert created(later) == ["fashion-worker-0-r2", "fashion-worker-1-r2"]


def test_an_image_that_cannot_be_pulled_is_reported_with_its_field_and_fails_in_the_end() -> None:
    waiting = pod("worker-0", "P", reason="ImagePullBackOff", message="not found", created_at="2030-01-02T03:04:00Z")
    status = stored([waiting, pod("worker-1")], stored())
    assert condition(status, "PodsReady")["reason"] == "ImageError"
    assert condition(status, "PodsReady")["message"].startswith("spec.image: worker-0 cannot start")
    late = plan(view([waiting, pod("worker-1")], status), NOW + timedelta(seconds=301), INSTALLATION)
    assert late.status is not None
    assert late.status["phase"] == "Failed"


def test_the_image_of_a_role_is_reported_with_the_field_of_the_role() -> None:
    waiting = pod("worker-0", "P", reason="ErrImagePull", message="not found")
    status = stored([waiting, pod("worker-1")], stored(), spec={"worker": {"replicas": 2, "image": "gone"}})
    assert condition(status, "PodsReady")["message"].startswith("spec.worker.image: worker-0 cannot start")


def test_a_rejected_creation_is_reported_with_the_message_of_the_api_server() -> None:
    status = stored("", stored(), create_error="exceeded quota: gpus")
    assert condition(status, "PodsReady")["reason"] == "FailedCreate"
    assert "exceeded quota" in status["summary"]["message"]


def test_a_job_that_has_ended_never_changes_again() -> None:
    done = stored("worker-0:S worker-1:S", RUNNING)
    for pods in ("worker-0:F worker-1:F", "", "worker-0:R worker-1:R"):
        todo = plan(view(pods, done), NOW, INSTALLATION)
        assert (todo.status, todo.creates, todo.events) == (None, (), ())


@pytest.mark.parametrize(
    ("policy", "deleted"),
    [("Running", ["fashion-worker-1"]), ("All", ["fashion-worker-0", "fashion-worker-1"]), ("None", [])],
)
def test_after_the_end_pods_are_deleted_by_the_clean_pod_policy(policy: str, deleted: list[str]) -> None:
    spec = {"runPolicy": {"cleanPodPolicy": policy}}
    done = stored("worker-0:S worker-1:R", RUNNING, spec=spec)
    todo = planned("worker-0:S worker-1:R", done, spec=spec, now=NOW + timedelta(seconds=10))
    assert list(todo.deletes) == deleted


def test_replicas_that_are_about_to_end_get_the_time_to_do_so() -> None:
    done = stored("worker-0:S worker-1:R", RUNNING)
    todo = planned("worker-0:S worker-1:R", done, now=NOW + timedelta(seconds=4))
    assert todo.deletes == ()
    assert todo.requeue_after_seconds == pytest.approx(6.0)


def test_every_status_that_is_stored_fits_the_schema() -> None:
    pods = [pod("worker-0", "F", exit_code=139), pod("worker-1", "F", exit_code=75)]
    for status in (RUNNING, TRAINING_SUCCEEDED, stored(pods, RUNNING), stored("", {}, report=report(3))):
        TFDistJobStatus.model_validate(status)


def test_a_job_that_is_being_deleted_gets_no_new_pods_while_its_old_ones_terminate() -> None:
    todo = planned([pod("worker-0", deleting=True)], RUNNING, deleting=True)
    assert (todo.status, todo.creates, todo.deletes) == (None, (), ())


def test_an_executed_plan_is_followed_by_an_empty_plan() -> None:
    status = stored("worker-0:R worker-1:F", RUNNING)
    todo = planned("worker-0-r1:P worker-1-r1:P worker-1:F", status)
    assert (todo.creates, todo.deletes, todo.events) == ((), (), ())
