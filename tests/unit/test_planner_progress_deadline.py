"""The progress deadline: jobs that run without progress."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.factories import EVALUATED, INSTALLATION, NOW, Lifecycle, created, event_reasons, pod, report, view

from tfdist.contract import Role
from tfdist.observed.job_view import ProbeResult, StepCadence
from tfdist.planner import Plan, plan
from tfdist.timestamps import rfc3339

BOTH = "worker-0:R worker-1:R"
FIXED = {"runPolicy": {"progressDeadlineSeconds": 60}}
AUTO = {"runPolicy": {"progressDeadlineSeconds": "Auto"}}
MOVED = StepCadence(attempt=0, last_progress_at=rfc3339(NOW), progress_count=1)


def stall(job: Lifecycle, after: float = 60) -> Plan:
    """Let a job exceed its deadline: its replicas are probed, and it is reconciled again."""
    todo = job.reconcile(BOTH, after=after, cadence=MOVED)
    probe_result = ProbeResult(todo.probe_id, "worker-1", "worker-1: in all_reduce")
    return job.reconcile(BOTH, cadence=MOVED, probe_result=probe_result)


def test_a_job_with_progress_is_reconciled_again_at_its_deadline() -> None:
    job = Lifecycle(BOTH, **FIXED)
    todo = job.reconcile(BOTH, after=20, cadence=MOVED)
    assert todo.probes == ()
    assert todo.requeue_after_seconds == pytest.approx(40)


@pytest.mark.parametrize(("phase", "asked"), [("compiling", False), ("training", True)])
def test_a_start_has_five_minutes_for_any_deadline_of_a_step(phase: str, asked: bool) -> None:
    job = Lifecycle(BOTH, **FIXED)
    todo = job.reconcile(BOTH, after=61, cadence=MOVED, report=report(0, phase=phase))
    assert bool(todo.probes) is asked


def test_before_a_stall_is_acted_on_every_replica_is_asked_where_it_stands() -> None:
    job = Lifecycle(BOTH, **FIXED)
    todo = job.reconcile(BOTH, after=60, cadence=MOVED)
    assert [f"{q.role}-{q.index}" for q in todo.probes] == ["worker-0", "worker-1"]
    assert (created(todo), job.status["phase"]) == ([], "Running")


def test_a_stall_restarts_the_gang_and_names_who_is_behind_with_the_stacks() -> None:
    job = Lifecycle(BOTH, **FIXED)
    todo = stall(job)
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
    assert event_reasons(todo) == ["Stalled", "Restarting"]
    assert job.condition_status("Stalled") == ("True", "ProgressDeadlineExceeded")
    failure = job.status["failures"][-1]
    assert (failure["reason"], failure["pod"], failure["counted"]) == ("Stalled", "fashion-worker-1", True)
    assert failure["stacks"] == "worker-1: in all_reduce"
    assert "no step was completed for 60 s; worker-1 is behind" in job.status["summary"]["message"]


def test_a_stall_is_over_when_steps_are_completed_again() -> None:
    job = Lifecycle(BOTH, **FIXED)
    stall(job)
    next_attempt = "worker-0-r1:R worker-1-r1:R"
    job.reconcile(next_attempt)
    assert job.condition_status("Stalled") == ("True", "ProgressDeadlineExceeded")
    job.reconcile(next_attempt, cadence=StepCadence(attempt=1, last_progress_at=rfc3339(job.now)))
    assert job.condition_status("Stalled") == ("False", "ProgressResumed")


def test_answers_about_an_earlier_stall_do_not_count_for_this_one() -> None:
    job = Lifecycle(BOTH, **FIXED)
    asked = job.reconcile(BOTH, after=60, cadence=MOVED)
    old = ProbeResult(asked.probe_id, "worker-1", "")
    again = StepCadence(attempt=0, last_progress_at=rfc3339(job.now), progress_count=2)
    todo = job.reconcile(BOTH, after=60, cadence=again, probe_result=old)
    assert created(todo) == []
    assert todo.probe_id != asked.probe_id


def test_the_cadence_of_an_earlier_attempt_does_not_stall_the_next() -> None:
    job = Lifecycle(BOTH, **FIXED)
    job.reconcile("worker-0:R worker-1:F")
    todo = job.reconcile("worker-0-r1:R worker-1-r1:R", after=1000, cadence=MOVED)
    assert (todo.probes, job.status["phase"]) == ((), "Running")


@pytest.mark.parametrize(
    "spec",
    [{"image": "a", "command": ["b"], "without": ["training"]}, {"training": {"script": "team.train"}}],
    ids=["command", "script"],
)
def test_a_custom_program_without_reports_never_stalls(spec: dict[str, Any]) -> None:
    job = Lifecycle(BOTH, **FIXED, **spec)
    assert job.reconcile(BOTH, after=10**6).probes == ()


IN_TEMPLATE = {"containers": [{"name": "tensorflow", "command": ["python", "mine.py"]}]}


@pytest.mark.parametrize(
    "spec",
    [
        {"image": "a"},
        {"command": ["b"]},
        {"worker": {"replicas": 2, "image": "a"}},
        {"template": {"spec": IN_TEMPLATE}},
        {"worker": {"replicas": 2, "template": {"spec": IN_TEMPLATE}}},
    ],
    ids=["image", "command", "image of the role", "command in the template", "command in the role's template"],
)
def test_a_program_of_the_users_that_has_training_and_reports_nothing_never_stalls(spec: dict[str, Any]) -> None:
    job = Lifecycle(BOTH, **FIXED, **spec)
    assert job.reconcile(BOTH, after=10**6).probes == ()


def test_a_command_of_the_installation_that_reports_nothing_never_stalls() -> None:
    # given podDefaults whose command replaces that of the trainer
    defaults = {"spec": {"containers": [{"name": "tensorflow", "command": ["python", "ours.py"]}]}}
    installation = replace(INSTALLATION, pod_defaults=defaults)
    job = Lifecycle(BOTH, **FIXED)
    # when the pods have been ready for days
    todo = plan(view(BOTH, job.status, spec=FIXED), NOW + timedelta(days=10), installation)
    # then no replica is probed
    assert todo.probes == ()


def test_the_trainer_in_an_image_of_the_users_that_never_reports_stalls() -> None:
    job = Lifecycle(BOTH, **FIXED, image="a", command=["sh", "-c"], args=["setup && exec python -m tfdist_trainer"])
    assert len(job.reconcile(BOTH, after=900).probes) == 2


def test_the_bundled_trainer_that_never_reports_stalls_also_after_a_restart_of_the_controller() -> None:
    job = Lifecycle(BOTH, **FIXED)
    assert job.reconcile(BOTH, after=100).requeue_after_seconds == pytest.approx(800)
    todo = job.reconcile(BOTH, after=800)
    assert [f"{q.role}-{q.index}" for q in todo.probes] == ["worker-0", "worker-1"]
    todo = job.reconcile(BOTH, probe_result=ProbeResult(todo.probe_id, "worker-1", "worker-1: in import"))
    assert (created(todo), job.condition_status("Stalled")) == (
        ["worker-0-r1", "worker-1-r1"],
        ("True", "ProgressDeadlineExceeded"),
    )


def test_an_evaluation_that_stands_still_restarts_and_the_pace_of_training_is_not_its_own() -> None:
    job = Lifecycle(BOTH, **FIXED, **EVALUATED)
    job.reconcile("worker-0:S worker-1:S", cadence=replace(MOVED, role=Role.WORKER))
    both = "evaluation-0:R evaluation-1:R"
    job.reconcile(both, after=61, cadence=replace(MOVED, role=Role.WORKER))
    assert job.reconcile(both, after=61, cadence=replace(MOVED, role=Role.WORKER)).probes == ()
    moved = StepCadence(attempt=0, last_progress_at=rfc3339(job.now), progress_count=1, role=Role.EVALUATION)
    todo = job.reconcile(both, after=60, cadence=moved)
    assert [str(q.role) for q in todo.probes] == ["evaluation", "evaluation"]
    todo = job.reconcile(both, cadence=moved, probe_result=ProbeResult(todo.probe_id, "evaluation-1", ""))
    assert created(todo) == ["evaluation-0-r1", "evaluation-1-r1"]


def test_a_leader_that_does_not_answer_any_more_is_named_while_it_lasts() -> None:
    job = Lifecycle(BOTH)
    job.reconcile(BOTH, report=report(5, remaining_seconds=5))
    job.reconcile(BOTH, report=report(5, remaining_seconds=5), leader_unresponsive=True)
    assert job.condition_status("Stalled") == ("True", "LeaderUnresponsive")
    assert "worker-0 (pod fashion-worker-0, node node-a)" in job.status["summary"]["message"]
    assert "eta" not in job.status["summary"]
    job.reconcile(BOTH, report=report(6, remaining_seconds=4))
    assert (job.condition_status("Stalled"), "eta" in job.status["summary"]) == (("False", "ProgressResumed"), True)


def test_a_job_without_a_deadline_never_stalls() -> None:
    job = Lifecycle(BOTH)
    assert job.reconcile(BOTH, after=10**6, cadence=MOVED).probes == ()


def test_auto_has_no_deadline_before_five_changes() -> None:
    job = Lifecycle(BOTH, **AUTO)
    slow = StepCadence(attempt=0, last_progress_at=rfc3339(NOW), longest_pause_seconds=1, progress_count=4)
    assert job.reconcile(BOTH, after=10**6, cadence=slow).probes == ()


@pytest.mark.parametrize(("gap", "deadline"), [(1.0, 120), (30.0, 300)])
def test_auto_allows_ten_times_the_longest_pause_and_at_least_two_minutes(gap: float, deadline: float) -> None:
    job = Lifecycle(BOTH, **AUTO)
    cadence = StepCadence(attempt=0, last_progress_at=rfc3339(NOW), longest_pause_seconds=gap, progress_count=5)
    assert job.reconcile(BOTH, cadence=cadence).requeue_after_seconds == pytest.approx(deadline)
    assert len(job.reconcile(BOTH, after=deadline, cadence=cadence).probes) == 2


def test_a_job_that_stalls_again_and_again_fails_by_its_limit() -> None:
    job = Lifecycle(BOTH, runPolicy={"progressDeadlineSeconds": 60, "backoffLimit": 0})
    stall(job)
    assert job.condition_status("Failed") == ("True", "BackoffLimitExceeded")
    assert "worker-1 is behind" in job.message("Failed")


def test_the_report_of_a_step_is_the_progress_and_not_a_stall() -> None:
    job = Lifecycle(BOTH, **FIXED)
    job.reconcile([pod("worker-0"), pod("worker-1")], cadence=MOVED, report=report(7))
    assert job.status["progress"]["step"] == 7
