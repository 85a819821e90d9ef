"""The progress deadline, and what `Auto` has learned, outlive the controller."""

from datetime import timedelta
from typing import Any

import pytest
from support.factories import EVALUATED, NOW, Lifecycle, created, report
from support.statuses import status_of

from tfdist.contract import Phase
from tfdist.observed.cadence import with_report
from tfdist.observed.job_view import ProbeResult, StepCadence
from tfdist.timestamps import rfc3339

BOTH = "worker-0:R worker-1:R"
FIXED: dict[str, Any] = {"runPolicy": {"progressDeadlineSeconds": 60}}
AUTO: dict[str, Any] = {"runPolicy": {"progressDeadlineSeconds": "Auto"}}


def later(seconds: float) -> str:
    return rfc3339(NOW + timedelta(seconds=seconds))


def trained(**spec: Any) -> Lifecycle:
    """Return a job of which one controller has seen steps 0 to 6, each after 20 s."""
    job, cadence = Lifecycle(BOTH, **spec), None
    for step in range(7):
        cadence = with_report(cadence, lambda: status_of(job.status), report(step).content, later(20 * step))
        job.reconcile(BOTH, after=20 if step else 0, cadence=cadence, report=report(step))
    return job


def test_the_deadline_does_not_start_again_with_the_next_controller() -> None:
    job = trained(**FIXED)
    cadence = with_report(None, lambda: status_of(job.status), report(6).content, later(170))
    assert cadence.last_progress_at == later(120)
    todo = job.reconcile(BOTH, after=61, cadence=cadence, report=report(6))
    assert len(todo.probes) == 2, "61 s without a step, of which the new controller has seen 11"
    job.reconcile(BOTH, cadence=cadence, probe_result=ProbeResult(todo.probe_id, "worker-1", ""))
    assert job.condition_status("Stalled") == ("True", "ProgressDeadlineExceeded")


def test_what_auto_has_learned_is_not_lost_and_the_gap_between_controllers_is_no_pause() -> None:
    job = trained(**AUTO)
    cadence = with_report(None, lambda: status_of(job.status), report(9).content, later(1000))
    assert (cadence.longest_pause_seconds, cadence.progress_count) == (20, 7)
    assert cadence.last_progress_at == later(1000), "steps were completed meanwhile"
    assert not job.reconcile(BOTH, after=880 + 199, cadence=cadence, report=report(9)).probes
    assert len(job.reconcile(BOTH, after=1, cadence=cadence, report=report(9)).probes) == 2


def test_what_auto_allows_before_it_has_learned_does_not_start_again_with_the_next_controller() -> None:
    # given a gang that hangs after its first step, and a controller that leads 20 minutes later
    first = report(1, step_time_millis=500.0)
    job, cadence = Lifecycle(BOTH, **AUTO), None
    for seconds, seen in ((0, report(0)), (8, first)):
        cadence = with_report(cadence, lambda: status_of(job.status), seen.content, later(seconds))
        job.reconcile(BOTH, after=seconds, cadence=cadence, report=seen)
    cadence = with_report(None, lambda: status_of(job.status), first.content, later(1208))
    # when 30 minutes have passed since the step
    assert not job.reconcile(BOTH, after=1799, cadence=cadence, report=first).probes
    # then the gang is stalled
    assert len(job.reconcile(BOTH, after=1, cadence=cadence, report=first).probes) == 2


@pytest.mark.parametrize("change", [{"phase": Phase.EVALUATING}, {"attempt": 1}], ids=["phase", "attempt"])
def test_another_phase_is_progress_and_another_attempt_begins_a_new_cadence(change: dict[str, Any]) -> None:
    job = trained(**FIXED)
    assert with_report(
        None, lambda: status_of(job.status), report(6, **change).content, later(500)
    ).last_progress_at == later(500)


def test_a_gang_that_has_reported_is_not_stalled_because_a_new_controller_cannot_reach_it_yet() -> None:
    job = trained(**FIXED)
    takeover = later(7200)
    todo = job.reconcile(BOTH, after=7080, observed_since=takeover)
    assert (todo.probes, created(todo)) == ((), [])
    assert todo.requeue_after_seconds == pytest.approx(900)
    assert len(job.reconcile(BOTH, after=900, observed_since=takeover).probes) == 2


def test_a_gang_that_began_to_report_while_no_controller_led_is_not_stalled_before_the_next_one_has_polled() -> None:
    # given a gang without a report, whose deadline passes while no controller leads
    job = Lifecycle(BOTH, **FIXED)
    takeover = later(7200)
    # when the next one leads
    todo = job.reconcile(BOTH, after=7200, observed_since=takeover)
    # then
    assert not todo.probes
    assert todo.requeue_after_seconds == pytest.approx(60)
    assert len(job.reconcile(BOTH, after=60, observed_since=takeover).probes) == 2


def test_a_restart_of_the_gang_clears_its_progress() -> None:
    job = trained(**FIXED)
    assert job.status["gangs"]["training"]["progress"]["changedAt"] == later(120)
    job.reconcile("worker-0:R worker-1:F")
    assert "progress" not in job.status["gangs"]["training"]


def test_that_all_replicas_have_run_is_written_at_once() -> None:
    # given an evaluation after training
    job = Lifecycle(BOTH, **EVALUATED)
    job.reconcile("worker-0:S worker-1:S")
    job.reconcile("worker-0:S worker-1:S evaluation-0:P evaluation-1:P")
    # when all of its replicas run within the time in which counters are not written
    pods = "worker-0:S worker-1:S evaluation-0:R evaluation-1:R"
    assert job.reconcile(pods, throttled_seconds=9.0).status is not None
    # then the next controller knows that a replica without a pod has run
    job.reconcile("worker-0:S worker-1:S evaluation-0:R")
    assert job.status["gangs"]["evaluation"]["attempt"] == 1


def test_without_a_deadline_nothing_is_stored() -> None:
    assert "progress" not in trained().status["gangs"]["training"]


def test_progress_alone_costs_no_write_before_its_time() -> None:
    job = trained(**FIXED)
    cadence = with_report(StepCadence(0, later(120)), lambda: status_of(job.status), report(7).content, later(121))
    todo = job.reconcile(BOTH, after=1, cadence=cadence, report=report(7), throttled_seconds=9.0)
    assert todo.status is None
