"""Planning of a sweep: which trials start, stop, resume and are deleted, and its status."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.sweep_jobs import trial_job
from support.sweeps import sweep_manifest

from tfdist.api.sweep import TFDistSweep
from tfdist.api.sweep_status import TFDistSweepStatus
from tfdist.sweep_planner import SweepPlan, SweepView, TrialJob, plan_sweep
from tfdist.validation import FieldError

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ASHA = {"method": "Asha", "minSteps": 100, "reduction": 2}


def sweep(**spec: Any) -> TFDistSweep:
    """Return a sweep of four trials, of which two run at a time."""
    fields: dict[str, Any] = {"metric": "accuracy", "search": {"trials": 4}, "parallelism": 2} | spec
    return TFDistSweep.model_validate(sweep_manifest(**fields))


def view(of: TFDistSweep | None = None, status: TFDistSweepStatus | None = None, **jobs: Any) -> SweepView:
    """Return the view of a sweep with jobs, such as `t0`, of its trials."""
    found = {int(name[1:]): job for name, job in jobs.items()}
    return SweepView(of or sweep(), (), 1, status or TFDistSweepStatus(), found)


def planned(observed: SweepView, now: datetime = NOW) -> tuple[SweepPlan, TFDistSweepStatus]:
    """Return the plan, and the status after it."""
    plan = plan_sweep(observed, now)
    return plan, plan.status or observed.status


def after(of: TFDistSweep, **jobs: TrialJob) -> tuple[SweepPlan, TFDistSweepStatus]:
    """Return the plan for jobs that all ran before, and the status after it."""
    _, before = planned(view(of, None, **dict.fromkeys(jobs, trial_job())))
    return planned(view(of, before, **jobs))


def phases(status: TFDistSweepStatus) -> dict[int, str]:
    return {result.trial: str(result.phase) for result in status.results or ()}


def test_the_first_trials_are_created_up_to_the_parallelism() -> None:
    plan, status = planned(view())
    assert plan.creates == (0, 1)
    assert (status.phase, status.results, status.active_since) == ("Running", None, "2030-01-01T00:00:00Z")


def test_a_trial_that_has_ended_makes_room_at_once_though_its_result_is_written_later() -> None:
    _, status = planned(view(t0=trial_job(), t1=trial_job()))
    throttled = replace(view(status=status, t0=trial_job("Succeeded", 0.9), t1=trial_job()), written_seconds_ago=3.0)
    plan = plan_sweep(throttled, NOW)
    assert (plan.status, plan.creates, plan.deletes) == (None, (2,), ())
    assert plan.requeue_after_seconds == 7.0


def test_results_and_the_best_trials_come_from_the_statuses_of_the_jobs() -> None:
    of = sweep(keepBest=2)
    _, status = after(
        of, t0=trial_job("Succeeded", 0.8), t1=trial_job(value=0.9, step=300), t2=trial_job("Failed", 0.99)
    )
    assert phases(status) == {0: "Succeeded", 1: "Running", 2: "Failed"}
    assert status.best is not None
    assert [(best.trial, best.job, best.value, best.step) for best in status.best] == [
        (1, "fashion-lr-1", 0.9, 300),
        (0, "fashion-lr-0", 0.8, 100),
    ]
    assert status.best[0].checkpoint == "/checkpoints/300"
    assert status.results is not None
    assert status.results[2].reason == "Crash"
    assert status.results[0].gpu_seconds == 5.0


def test_a_value_that_was_better_earlier_stays() -> None:
    of = sweep()
    _, before = after(of, t0=trial_job(value=0.9, step=100))
    job = trial_job(value=0.7, step=200)
    _, status = planned(view(of, before, t0=job))
    assert status.results is not None
    assert (status.results[0].value, status.results[0].step) == (0.9, 100)


def test_a_goal_to_minimize_prefers_smaller_values() -> None:
    of = sweep(metric="accuracy", goal="Minimize")
    _, status = after(of, t0=trial_job("Succeeded", 0.8), t1=trial_job("Succeeded", 0.2))
    assert status.best is not None
    assert [best.trial for best in status.best] == [1]


def test_a_sweep_succeeds_once_every_trial_has_ended() -> None:
    jobs = {f"t{number}": trial_job("Succeeded", number / 10) for number in range(4)}
    plan, status = after(sweep(), **jobs)
    assert (status.phase, status.completion_time) == ("Succeeded", "2030-01-01T00:00:00Z")
    assert [(event.reason, event.warning) for event in plan.events] == [("AllTrialsFinished", False)]
    assert "best accuracy 0.3 of trial 3 at step 100 (job fashion-lr-3)" in plan.events[0].message


def test_trials_that_succeed_without_the_metric_fail_with_its_name() -> None:
    jobs = {f"t{number}": trial_job("Succeeded") for number in range(4)}
    _, status = after(sweep(maxFailedTrials=4), **jobs)
    assert (status.phase, phases(status)[0]) == ("Failed", "Failed")
    assert status.conditions is not None
    assert any(
        each.reason == "NoResult" and "no trial has a value of accuracy" in each.message for each in status.conditions
    )


def without_metric(**spec: Any) -> TFDistSweep:
    """Return a sweep of a list of three values, whose trials are not compared."""
    parameters = [{"name": "arguments", "env": "ARGUMENTS"}]
    search = {"method": "List", "list": [{"arguments": {"lr": rate}} for rate in (1, 2, 3)]}
    template = {"evaluation": {"mode": "None"}}
    fields = {"metric": None, "parameters": parameters, "search": search, "maxFailedTrials": 3, "parallelism": 3}
    made = sweep_manifest(**fields | spec, template=template)
    del made["spec"]["template"]["spec"]["evaluation"]
    return TFDistSweep.model_validate(made)


def test_the_trials_of_a_list_without_a_metric_succeed_with_their_jobs() -> None:
    failed = trial_job("Failed", reason="UserError", message="worker-0: no such file: /data")
    _, running = after(without_metric(), t0=failed, t1=trial_job())
    assert running.phase == "Running", "an error in one is none of the others"
    _, ended = after(without_metric(), t0=failed, t1=trial_job("Succeeded"), t2=trial_job("Succeeded"))
    assert (ended.phase, phases(ended)) == ("Succeeded", {0: "Failed", 1: "Succeeded", 2: "Succeeded"})
    assert ended.best is None or ended.best == []


def test_a_list_without_a_metric_fails_if_no_trial_succeeds() -> None:
    _, ended = after(without_metric(), **{f"t{number}": trial_job("Failed") for number in range(3)})
    assert ended.phase == "Failed"
    assert ended.conditions is not None
    assert any(
        each.reason == "NoResult" and each.message.startswith("0 of 3 trials succeeded") for each in ended.conditions
    )


def test_the_target_ends_the_sweep_and_stops_what_runs() -> None:
    of = sweep(targetValue=0.9)
    plan, status = after(of, t0=trial_job(value=0.9), t1=trial_job(value=0.5))
    assert (status.phase, phases(status)) == ("Succeeded", {0: "Stopped", 1: "Stopped"})
    assert (plan.creates, plan.suspends) == ((), (0, 1))
    assert [event.reason for event in plan.events] == ["TargetReached"]


def test_one_failed_trial_more_than_tolerated_fails_the_sweep() -> None:
    of = sweep(maxFailedTrials=1)
    _, one = after(of, t0=trial_job("Failed", 0.5), t1=trial_job())
    assert one.phase == "Running"
    plan, two = planned(view(of, one, t0=trial_job("Failed", 0.5), t1=trial_job("Failed")))
    assert two.phase == "Failed"
    assert [event.reason for event in plan.events] == ["TrialFailed", "TooManyFailedTrials"]
    assert "trial 1 failed: Crash: worker-0 ended with code 1" in plan.events[1].message


def test_a_user_error_before_any_value_fails_the_sweep_at_once() -> None:
    failed = trial_job("Failed", reason="UserError", message="worker-0: no such file: /data")
    plan, status = after(sweep(), t0=failed, t1=trial_job())
    assert (status.phase, plan.suspends) == ("Failed", (1,))
    assert "no such file: /data" in plan.events[-1].message
    # but not once another trial has trained
    _, later = after(sweep(), t0=failed, t1=trial_job(value=0.5))
    assert later.phase == "Running"


@pytest.mark.parametrize(
    ("job", "reason"),
    [(None, "JobDeleted"), (trial_job(owned=False), "NameTaken"), (trial_job("Invalid", reason="Invalid"), "Invalid")],
)
def test_a_trial_without_a_job_of_its_own_fails(job: TrialJob | None, reason: str) -> None:
    _, before = planned(view(t0=trial_job()))
    plan, status = planned(view(None, before, **({"t0": job} if job else {})))
    assert status.results is not None
    assert (status.results[0].phase, status.results[0].reason) == ("Failed", reason)
    assert plan.creates == (1, 2)


def test_a_trial_waits_for_the_deletion_of_a_job_of_an_earlier_sweep_of_the_same_name() -> None:
    observed = replace(view(), leftover=frozenset({0}))
    plan, status = planned(observed)
    assert (plan.creates, status.results) == ((1, 2), None)
    assert planned(view(status=status, t1=trial_job()))[0].creates == (0,)


def test_a_trial_whose_job_the_api_server_rejects_fails_with_its_words() -> None:
    plan, status = planned(replace(view(), rejected={0: "denied by a policy"}))
    assert status.results is not None
    assert (status.results[0].reason, plan.creates) == ("Rejected", (1, 2))
    assert "trial 0 failed: Rejected: denied by a policy" in plan.events[0].message


def test_asha_stops_the_worse_half_of_a_rung_and_suspends_its_jobs_after_the_status_has_it() -> None:
    of = sweep(earlyStopping=ASHA)
    observed = {"t0": trial_job(value=0.9), "t1": trial_job(value=0.5)}
    plan, status = after(of, **observed)
    assert (phases(status), plan.suspends) == ({0: "Running", 1: "Stopped"}, (1,))
    assert status.rungs is not None
    assert [(rung.step, rung.values) for rung in status.rungs] == [(100, {"0": 0.9, "1": 0.5})]
    # when the status cannot be written yet, then nothing is suspended
    _, before = planned(view(of, t0=trial_job(), t1=trial_job()))
    throttled = replace(view(of, before, **observed), written_seconds_ago=0.5)
    plan = plan_sweep(throttled, NOW)
    assert (plan.status, plan.suspends, plan.requeue_after_seconds) == (None, (), 1.5)


def test_a_stopped_trial_is_deleted_once_its_pods_have_ended_unless_it_is_one_of_the_best() -> None:
    of = sweep(earlyStopping=ASHA)
    _, status = after(of, t0=trial_job(value=0.9), t1=trial_job(value=0.5))
    suspending = trial_job(value=0.5, suspended=True, suspended_by_sweep=True)
    assert plan_sweep(view(of, status, t0=trial_job(value=0.9), t1=suspending), NOW).deletes == ()
    suspended = trial_job("Suspended", 0.5, suspended=True, suspended_by_sweep=True)
    assert plan_sweep(view(of, status, t0=trial_job(value=0.9), t1=suspended), NOW).deletes == (1,)
    kept = sweep(earlyStopping=ASHA, keepBest=2)
    assert plan_sweep(view(kept, status, t0=trial_job(value=0.9), t1=suspended), NOW).deletes == ()


@pytest.mark.parametrize(("clean", "deleted"), [("None", ()), ("Stopped", ()), ("AllButBest", (0, 2))])
def test_finished_jobs_are_deleted_only_with_all_but_best(clean: str, deleted: tuple[int, ...]) -> None:
    of = sweep(cleanTrials=clean)
    jobs = {"t0": trial_job("Succeeded", 0.8), "t1": trial_job("Succeeded", 0.9), "t2": trial_job("Failed")}
    plan, _ = after(of, **jobs)
    assert plan.deletes == deleted


def test_a_stopped_trial_resumes_when_it_is_among_the_best_and_no_new_trial_is_left() -> None:
    of = sweep(earlyStopping=ASHA | {"resume": True}, search={"trials": 4})
    suspended = trial_job("Suspended", 0.6, suspended=True, suspended_by_sweep=True)
    # given trial 1, which was the worse one of two at the rung
    _, status = after(of, t0=trial_job(value=0.9), t1=trial_job(value=0.6))
    assert phases(status) == {0: "Running", 1: "Stopped"}
    # when two more trials have been worse, then it is the second of four, and its job is kept and resumed
    jobs = {"t0": trial_job("Succeeded", 0.9), "t1": suspended, "t2": trial_job(value=0.1), "t3": trial_job(value=0.2)}
    plan, status = planned(view(of, status, **jobs))
    assert phases(status) == {0: "Succeeded", 1: "Running", 2: "Stopped", 3: "Stopped"}
    assert (plan.resumes, plan.deletes) == ((1,), ())


def test_a_suspended_sweep_suspends_its_jobs_and_resumes_only_those() -> None:
    of = sweep(suspend=True)
    _, before = planned(view(t0=trial_job(), t1=trial_job("Suspended", suspended=True)))
    plan, status = planned(view(of, before, t0=trial_job(), t1=trial_job("Suspended", suspended=True)))
    assert (status.phase, status.active_since, plan.suspends, plan.creates) == ("Suspended", None, (0,), ())
    # when it is resumed, then a job that the user has suspended stays so
    mine = trial_job("Suspended", suspended=True, suspended_by_sweep=True)
    plan, status = planned(view(sweep(), status, t0=mine, t1=trial_job("Suspended", suspended=True)))
    assert (status.phase, plan.resumes) == ("Running", (0,))


def test_the_deadline_fails_the_sweep_without_another_event() -> None:
    of = sweep(activeDeadlineSeconds=60)
    plan, status = planned(view(of, t0=trial_job()))
    assert plan.requeue_after_seconds == 60
    plan, status = planned(view(of, status, t0=trial_job()), NOW + timedelta(seconds=60))
    assert (status.phase, plan.events[-1].reason, plan.suspends) == ("Failed", "ActiveDeadlineExceeded", (0,))


def test_a_finished_sweep_is_deleted_after_its_time_to_live_and_never_runs_again() -> None:
    of = sweep(ttlSecondsAfterFinished=100)
    jobs = {f"t{number}": trial_job("Succeeded", 0.5) for number in range(4)}
    _, status = after(of, **jobs)
    plan = plan_sweep(view(of, status), NOW + timedelta(seconds=40))
    assert (plan.status, plan.creates, plan.delete_sweep, plan.requeue_after_seconds) == (None, (), False, 60)
    assert plan_sweep(view(of, status), NOW + timedelta(seconds=100)).delete_sweep


def test_an_invalid_sweep_reports_its_errors_once() -> None:
    invalid = replace(view(), sweep=None, problems=(FieldError("spec.parameters[0]", "has no values"),))
    plan, status = planned(invalid)
    assert (status.phase, plan.creates) == ("Invalid", ())
    assert [event.message for event in plan.events] == ["spec.parameters[0]: has no values"]
    assert plan_sweep(replace(invalid, status=status), NOW) == SweepPlan()
    # when it is corrected, then it runs
    plan, status = planned(replace(view(status=status), generation=2))
    assert (status.phase, plan.creates) == ("Running", (0, 1))


def test_a_rejected_creation_is_reported_while_it_is_retried() -> None:
    plan, status = planned(replace(view(), create_error="exceeded quota: jobs=10"))
    assert status.conditions is not None
    assert [(each.reason, each.message) for each in status.conditions] == [("CreateFailed", "exceeded quota: jobs=10")]
    assert plan.creates == (0, 1)


def test_an_idle_sweep_is_not_written() -> None:
    _, status = planned(view(t0=trial_job(), t1=trial_job()))
    assert plan_sweep(view(status=status, t0=trial_job(), t1=trial_job()), NOW + timedelta(minutes=5)) == SweepPlan()
