"""The plan of one reconcile of a sweep.

The status is written before any action that follows from a result: a trial is suspended or deleted only once the
status has its result. A trial is created before the status has it, so that a controller that is killed between the two
finds the job, whose name follows from its number, and never treats the trial as one whose job was deleted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from tfdist.api.status import JobPhase
from tfdist.api.sweep import CleanTrials, TFDistSweep
from tfdist.api.sweep_status import SweepPhase, TFDistSweepStatus, TrialPhase
from tfdist.planner.plan import Event, min_delay
from tfdist.reasons import SweepReason
from tfdist.sweep_planner.conditions import with_conditions
from tfdist.sweep_planner.outcome import Outcome, newly_failed, outcome, trial_failure
from tfdist.sweep_planner.results import Results, best_trials, counts, update_results
from tfdist.sweep_planner.stopping import resume_trials, stop_trials
from tfdist.sweep_planner.view import SweepView, TrialJob
from tfdist.sweeps.values import trial_count
from tfdist.timestamps import parse_time, rfc3339
from tfdist.validation.errors import summary

WRITE_SECONDS: Final = 10.0
"""Minimum time between two writes of a status that neither begin nor end the sweep: it has up to 500 results."""
STOP_SECONDS: Final = 2.0
"""The same for a status with newly stopped trials, which train on until it is written."""
FINISHED: Final = frozenset({SweepPhase.SUCCEEDED, SweepPhase.FAILED})


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """All actions for one sweep, in the order of execution; trials by number."""

    status: TFDistSweepStatus | None = None
    """The whole status to write; None leaves the stored one."""
    events: tuple[Event, ...] = ()
    creates: tuple[int, ...] = ()
    """Trials whose jobs are created."""
    suspends: tuple[int, ...] = ()
    resumes: tuple[int, ...] = ()
    deletes: tuple[int, ...] = ()
    """Trials whose jobs are deleted."""
    delete_sweep: bool = False
    requeue_after_seconds: float | None = None
    """When to reconcile again without a change."""


def plan_sweep(view: SweepView, now: datetime) -> SweepPlan:
    """Return the plan for a sweep."""
    if view.status.phase in FINISHED:
        return _after_end(view, now)
    if view.sweep is None:
        return _invalid(view, now)
    return _active(view, view.sweep, now)


def _active(view: SweepView, sweep: TFDistSweep, now: datetime) -> SweepPlan:
    spec, total = sweep.spec, trial_count(sweep.spec)
    results, observed = update_results(view, spec)
    rungs, results = stop_trials(spec, view.status.rungs or [], results, observed)
    if len(results) == total and not spec.suspend:
        places = spec.parallelism - counts(results, total).running
        results = resume_trials(spec, rungs, results, [t for t, job in view.jobs.items() if job.owned], places)
    best = best_trials(view, spec, sweep.metadata.name, results, observed)
    end = outcome(view, spec, results, best, total, now)
    if end is not None:
        results = _ended(results)
    status = view.status.model_copy(
        update={
            "observed_generation": view.generation,
            "trials": counts(results, total),
            "best": best or None,
            "results": list(results.values()) or None,
            "rungs": rungs or None,
            "active_since": _active_since(view, now, suspended=spec.suspend),
            "start_time": view.status.start_time or (None if spec.suspend else rfc3339(now)),
            "completion_time": rfc3339(now) if end else None,
        }
    )
    status = with_conditions(status, view, sweep, end, rfc3339(now))
    has_changed, delay = status != view.status, _write_delay(view, status)
    written_status = status if has_changed and delay <= 0 else None
    plan = _actions(view, sweep, written_status or view.status)
    events = _events(view, results, status, end) if written_status else ()
    waits = [delay if has_changed and not written_status else None, _deadline(sweep, status, now)]
    return replace(plan, status=written_status, events=events, requeue_after_seconds=min_delay(waits))


def _write_delay(view: SweepView, status: TFDistSweepStatus) -> float:
    """Return the seconds until a new status may be written."""
    if status.phase is not view.status.phase or view.generation != view.status.observed_generation:
        return 0.0
    before, after = (each.stopped if each else 0 for each in (view.status.trials, status.trials))
    return max(0.0, (STOP_SECONDS if after > before else WRITE_SECONDS) - view.written_seconds_ago)


def _actions(view: SweepView, sweep: TFDistSweep, status: TFDistSweepStatus) -> SweepPlan:
    """Return the actions that follow from the stored status, or from the one that is written first."""
    spec = sweep.spec
    phases = {result.trial: result.phase for result in status.results or ()}
    owned = {trial: job for trial, job in view.jobs.items() if job.owned and not job.deleting}
    has_finished = status.phase in FINISHED
    running = {trial: job for trial, job in owned.items() if _runs(phases.get(trial), job)}
    pause = has_finished or spec.suspend
    to_suspend = [
        trial
        for trial, job in owned.items()
        if not job.suspended
        and not job.is_finished
        and (phases.get(trial) is TrialPhase.STOPPED or (pause and trial in running))
    ]
    to_resume = [trial for trial, job in running.items() if job.suspended_by_sweep and not pause]
    return SweepPlan(
        creates=() if pause else _new_trials(view, spec.parallelism - len(running), trial_count(spec), phases),
        suspends=tuple(sorted(to_suspend)),
        resumes=tuple(sorted(to_resume)),
        deletes=_deletes(sweep, status, owned),
    )


def _runs(phase: TrialPhase | None, job: TrialJob) -> bool:
    """Return whether a job counts towards `parallelism`."""
    return phase in {None, TrialPhase.RUNNING} and not job.is_finished and job.phase is not JobPhase.INVALID


def _new_trials(view: SweepView, places: int, total: int, phases: Mapping[int, TrialPhase]) -> tuple[int, ...]:
    existing = view.jobs.keys() | view.rejected.keys() | view.leftover | phases.keys()
    candidates = (trial for trial in range(total) if trial not in existing)
    return tuple(trial for trial, _ in zip(candidates, range(places), strict=False))


def _deletes(sweep: TFDistSweep, status: TFDistSweepStatus, owned: Mapping[int, TrialJob]) -> tuple[int, ...]:
    """Return the trials to clean: their results are in the status, and their pods have ended."""
    clean, early = sweep.spec.clean_trials, sweep.spec.early_stopping
    if clean is CleanTrials.NONE:
        return ()
    retained = {best.trial for best in status.best or ()}
    may_resume = early is not None and early.resume and status.phase not in FINISHED
    result = []
    for trial, phase in ((each.trial, each.phase) for each in status.results or ()):
        job = owned.get(trial)
        if job is None or trial in retained or phase is TrialPhase.RUNNING:
            continue
        if phase is TrialPhase.STOPPED:
            is_deletable = not may_resume and (job.phase is JobPhase.SUSPENDED or job.is_finished)
        else:
            is_deletable = clean is CleanTrials.ALL_BUT_BEST and job.is_finished
        result += [trial] if is_deletable else []
    return tuple(result)


def _after_end(view: SweepView, now: datetime) -> SweepPlan:
    """Return the plan for a finished sweep: its jobs end and are cleaned, and its TTL deletes it."""
    sweep, status = view.sweep, view.status
    if sweep is None:
        return SweepPlan()
    plan, ttl = _actions(view, sweep, status), sweep.spec.ttl_seconds_after_finished
    if ttl is None or status.completion_time is None:
        return plan
    remaining = ttl - (now - parse_time(status.completion_time)).total_seconds()
    return replace(plan, delete_sweep=remaining <= 0, requeue_after_seconds=remaining if remaining > 0 else None)


def _invalid(view: SweepView, now: datetime) -> SweepPlan:
    """Return the plan for a sweep with errors: they are reported, and trials that run go on."""
    status = with_conditions(
        view.status.model_copy(update={"observed_generation": view.generation}), view, None, None, rfc3339(now)
    )
    if status == view.status:
        return SweepPlan()
    text = summary(view.problems)
    return SweepPlan(status=status, events=(Event(SweepReason.INVALID, text, True, str(view.generation)),))


def _ended(results: Results) -> Results:
    """Return the results at the end of the sweep: trials that still run are stopped."""
    stopped = {"phase": TrialPhase.STOPPED, "reason": str(SweepReason.SWEEP_ENDED)}
    return {
        trial: result.model_copy(update=stopped) if result.phase is TrialPhase.RUNNING else result
        for trial, result in results.items()
    }


def _events(view: SweepView, results: Results, status: TFDistSweepStatus, end: Outcome | None) -> tuple[Event, ...]:
    failed = [
        Event(SweepReason.TRIAL_FAILED, trial_failure(view, results, trial), True, str(trial))
        for trial in newly_failed(view, results)
    ]
    if end is not None:
        failed.append(Event(end.reason, end.message, not end.succeeded))
    elif status.phase is SweepPhase.SUSPENDED and view.status.phase is not SweepPhase.SUSPENDED:
        failed.append(Event(SweepReason.SUSPENDED, "the sweep is suspended", identity=str(view.generation)))
    return tuple(failed)


def _active_since(view: SweepView, now: datetime, *, suspended: bool) -> str | None:
    """Return since when the sweep is active: its start, or when it was last resumed; None while it is suspended."""
    return None if suspended else view.status.active_since or rfc3339(now)


def _deadline(sweep: TFDistSweep, status: TFDistSweepStatus, now: datetime) -> float | None:
    """Return the seconds until the sweep fails by its deadline."""
    limit = sweep.spec.active_deadline_seconds
    if limit is None or status.active_since is None or status.phase in FINISHED:
        return None
    return limit - (now - parse_time(status.active_since)).total_seconds()
