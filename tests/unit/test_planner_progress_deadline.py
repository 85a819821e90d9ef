"""The progress deadline: jobs that run without progress."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.factories import (
    EVALUATED,
    INSTALLATION,
    NOW,
    Lifecycle,
    created,
    event_reasons,
    failure_in_place,
    launcher_report,
    pod,
    report,
    view,
)

from tfdist.api.status import TFDistJobStatus
from tfdist.contract import Phase, Role
from tfdist.observed.cadence import with_report
from tfdist.observed.job_view import ProbeResult, StepCadence
from tfdist.observed.probe import Answer, probe_result
from tfdist.planner import Plan, plan
from tfdist.restarts.stall import StepPosition
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


@pytest.mark.parametrize(
    ("first", "changes", "fields", "deadline"),
    [
        pytest.param(0, 1, {}, 7200, id="no step"),
        pytest.param(0, 4, {"step_time_millis": 500.0}, 1800, id="a step"),
        pytest.param(0, 4, {"step_time_millis": 500.0, "phase": "evaluating"}, 1800, id="the first evaluation"),
        pytest.param(2700, 0, {}, 27000, id="a report each 45 minutes"),
    ],
)
def test_auto_finds_a_hang_before_five_changes(
    first: float, changes: int, fields: dict[str, Any], deadline: float
) -> None:
    job = Lifecycle(BOTH, **AUTO)
    cadence = StepCadence(0, rfc3339(NOW + timedelta(seconds=first)), progress_count=changes)
    job.reconcile(BOTH, after=first)
    assert job.reconcile(BOTH, after=deadline - 1, cadence=cadence, report=report(1, **fields)).probes == ()
    assert len(job.reconcile(BOTH, after=1, cadence=cadence, report=report(1, **fields)).probes) == 2


def launcher_starts() -> dict[str, Any]:
    """Return what is known of a gang whose launcher reports that its program starts."""
    seen = launcher_report()
    content = seen.content.model_copy(update={"phase": Phase.STARTING, "step": None})
    cadence = with_report(None, TFDistJobStatus, content, rfc3339(NOW))
    return {"report": replace(seen, content=content), "cadence": cadence}


@pytest.mark.parametrize("policy", [FIXED, AUTO], ids=["number", "Auto"])
def test_a_script_under_launchers_that_reports_nothing_never_stalls(policy: dict[str, Any]) -> None:
    job = Lifecycle(BOTH, **policy, training={"script": "team.train"})
    assert job.reconcile(BOTH, after=10**6, **launcher_starts()).probes == ()


def test_the_bundled_trainer_that_starts_for_ever_under_launchers_stalls() -> None:
    job = Lifecycle(BOTH, **AUTO)
    assert job.reconcile(BOTH, after=3 * 7200 - 1, **launcher_starts()).probes == ()
    assert len(job.reconcile(BOTH, after=1, **launcher_starts()).probes) == 2


@pytest.mark.parametrize("policy", [{}, FIXED, AUTO], ids=["no deadline", "number", "Auto"])
def test_minutes_without_progress_are_named_long_before_they_have_consequences(policy: dict[str, Any]) -> None:
    # given a gang whose first step has ended
    job = Lifecycle(BOTH, **policy)
    seen = {"cadence": MOVED, "report": report(1, 60, phase=Phase.COMPILING)}
    assert job.reconcile(BOTH, after=60, **seen).requeue_after_seconds == pytest.approx(60)
    assert "no progress" not in job.message("Running")
    # when two minutes pass
    job.reconcile(BOTH, after=60, **seen)
    # then the message has since when, where, and what shows more, and does not change
    text = "; no progress since 2030-01-02T03:04:05Z: worker-0 is compiling at step 1 of 60; where the replicas are: "
    assert f"{text}tfdist stacks fashion -n" in job.message("Running")
    assert job.condition_status("Running")[0] == "True"
    assert "no progress" in job.status["summary"]["message"]
    assert job.reconcile(BOTH, after=100, **seen).status is None
    # and it ends with the next step
    moved = replace(MOVED, last_progress_at=rfc3339(job.now), progress_count=2)
    job.reconcile(BOTH, cadence=moved, report=report(2, 60))
    assert "no progress" not in job.message("Running")


@pytest.mark.parametrize(
    "seen",
    [
        {"cadence": MOVED, "report": report(60, 60, phase=Phase.FINISHED)},
        {"cadence": MOVED, "report": launcher_report(waiting_for="worker-1 has not joined")},
        {"cadence": MOVED, "report": report(1, waiting_for=["10.0.0.2:2222"])},
        {"cadence": replace(MOVED, longest_pause_seconds=200.0), "report": report(1)},
        {"cadence": replace(MOVED, attempt=1), "report": report(1)},
        {},
    ],
    ids=["finished", "launchers wait", "members connect", "its steps take minutes", "another attempt", "no report"],
)
def test_what_is_usual_or_has_a_message_of_its_own_is_not_named(seen: dict[str, Any]) -> None:
    job = Lifecycle(BOTH)
    job.reconcile(BOTH, after=300, **seen)
    assert "no progress since" not in job.message("Running")


def test_a_stall_of_which_no_replica_is_known_to_be_the_cause_blames_none() -> None:
    # given two workers that wait in different collectives after the first step
    job = Lifecycle(BOTH, **FIXED)
    todo = job.reconcile(BOTH, after=60, cadence=MOVED)
    answers: dict[str, Answer] = {f"worker-{i}": (StepPosition(1, 300.0), "in all_reduce") for i in range(2)}
    # when they have been probed
    job.reconcile(BOTH, cadence=MOVED, probe_result=probe_result(todo.probe_id, answers, 2))
    # then the message has their step
    text = "no step was completed for 60 s; no replica is known to be behind, all that report are at step 1"
    assert job.message("Stalled") == text
    assert "node" not in job.status["failures"][-1]
    assert "worker-1: in all_reduce" in job.status["failures"][-1]["stacks"]


def test_a_jump_of_the_clock_stalls_no_gang_that_completes_steps() -> None:
    # given a gang at step 1, and a clock that jumps by an hour
    job = Lifecycle(BOTH, **FIXED)
    todo = job.reconcile(BOTH, after=3600, cadence=MOVED, report=report(1))
    # when the probe finds its leader at a later step
    answers: dict[str, Answer] = {f"worker-{i}": (StepPosition(9, 300.0), "in fit") for i in range(2)}
    found = probe_result(todo.probe_id, answers, 2)
    todo = job.reconcile(BOTH, cadence=MOVED, report=report(1), probe_result=found)
    # then it goes on, and it is stalled if it is still at that step after the deadline
    assert (created(todo), todo.requeue_after_seconds) == ([], 10)
    moved = replace(MOVED, last_progress_at=rfc3339(job.now), progress_count=2)
    todo = job.reconcile(BOTH, after=60, cadence=moved, report=report(9))
    found = probe_result(todo.probe_id, answers, 2)
    assert len(created(job.reconcile(BOTH, cadence=moved, report=report(9), probe_result=found))) == 2


def test_a_worker_that_reported_a_later_step_than_the_leader_is_no_progress() -> None:
    job = Lifecycle(BOTH, **FIXED)
    todo = job.reconcile(BOTH, after=60, cadence=MOVED, report=report(10))
    answers: dict[str, Answer] = {f"worker-{i}": (StepPosition(10 + 3 * i, 5.0), "in fit") for i in range(2)}
    found = probe_result(todo.probe_id, answers, 2)
    assert len(created(job.reconcile(BOTH, cadence=MOVED, report=report(10), probe_result=found))) == 2


def test_a_stall_in_place_of_which_no_replica_is_known_to_be_the_cause_blames_none() -> None:
    text = "no step was completed for 61 s; no replica is known to be behind, all that report are at step 1"
    stalled = failure_in_place(1, index=0, exit_code=None, reason="Stalled", message=text)
    job = Lifecycle(BOTH)
    todo = job.reconcile(BOTH, report=launcher_report(stalled, number=1, waiting_for="worker-1 has not joined"))
    expected = f"the gang stalled in round 0: {text}"
    assert [e.message.startswith(expected) for e in todo.events if e.reason == "Restarting"] == [True]
    assert job.message("Restarting").startswith(expected)


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
