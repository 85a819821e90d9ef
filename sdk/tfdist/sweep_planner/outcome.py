"""The end of a sweep: its condition, reason and message."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tfdist.api.sweep import TFDistSweepSpec
from tfdist.api.sweep_status import BestTrial, TrialPhase
from tfdist.reasons import SweepReason
from tfdist.sweep_planner.results import Results, counts
from tfdist.sweep_planner.view import SweepView
from tfdist.sweeps.early_stopping import is_better
from tfdist.timestamps import parse_time


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a sweep."""

    succeeded: bool
    reason: SweepReason
    message: str


def outcome(
    view: SweepView, spec: TFDistSweepSpec, results: Results, best: list[BestTrial], total: int, now: datetime
) -> Outcome | None:
    """Return the end of a sweep; None while it runs.

    Args:
        view: the observed state.
        spec: specification of the sweep.
        results: results of the trials.
        best: the best trials, best first.
        total: number of trials of the sweep.
        now: the time.
    """
    ended = counts(results, total)
    text = f"{ended.succeeded} of {total} trials succeeded, {ended.stopped} were stopped early, {ended.failed} failed"
    if best:
        text = f"{best_text(spec, best[0])}; {text}"
    if best and spec.target_value is not None and _reaches(spec, best[0].value):
        return Outcome(True, SweepReason.TARGET_REACHED, text)
    if failure := _failure(view, spec, results):
        return Outcome(False, failure[0], f"{failure[1]}; {text}")
    start, limit = view.status.active_since, spec.active_deadline_seconds
    if start and limit and not spec.suspend and (now - parse_time(start)).total_seconds() >= limit:
        reason = SweepReason.ACTIVE_DEADLINE_EXCEEDED
        return Outcome(False, reason, f"the sweep was active for {limit} s, its activeDeadlineSeconds; {text}")
    if len(results) < total or ended.running:
        return None
    if spec.metric_name is None and not ended.succeeded:
        return Outcome(False, SweepReason.NO_RESULT, text)
    if spec.metric_name is not None and not best:
        return Outcome(False, SweepReason.NO_RESULT, f"no trial has a value of {spec.metric_name}; {text}")
    return Outcome(True, SweepReason.ALL_TRIALS_FINISHED, text)


def best_text(spec: TFDistSweepSpec, best: BestTrial) -> str:
    """Return the best value with its trial, for messages."""
    return f"best {spec.metric_name} {best.value:.6g} of trial {best.trial} at step {best.step} (job {best.job})"


def _reaches(spec: TFDistSweepSpec, value: float) -> bool:
    return spec.target_value is not None and not is_better(spec.target_value, value, maximizes=spec.maximizes)


def _failure(view: SweepView, spec: TFDistSweepSpec, results: Results) -> tuple[SweepReason, str] | None:
    """Return why the sweep fails by its trials: reason and message."""
    failed = [trial for trial, result in results.items() if result.phase is TrialPhase.FAILED]
    if not failed:
        return None
    faulty_trial = next((trial for trial in failed if results[trial].reason == SweepReason.USER_ERROR), None)
    # Without a metric the values of each trial are a task of its own, so an error in one says nothing about the others.
    compares = spec.metric_name is not None
    if faulty_trial is not None and compares and not any(result.value is not None for result in results.values()):
        text = "no trial has a value yet, so the error is in the template: correct it, and create the sweep again"
        return SweepReason.USER_ERROR, f"{trial_failure(view, results, faulty_trial)}; {text}"
    if len(failed) > spec.max_failed_trials:
        text = f"{len(failed)} trials failed, and maxFailedTrials is {spec.max_failed_trials}"
        return SweepReason.TOO_MANY_FAILED_TRIALS, f"{text}; the last one: {trial_failure(view, results, failed[-1])}"
    return None


def trial_failure(view: SweepView, results: Results, trial: int) -> str:
    """Return the reason and, if available, the message of the failure of a trial."""
    job, reason = view.jobs.get(trial), results[trial].reason
    message = job.end[1] if job is not None and job.owned else view.rejected.get(trial, "")
    if not message:
        message = next((each.meaning for each in SweepReason if each == reason), "")
    return f"trial {trial} failed: {reason}" + (f": {message}" if message else "")


def newly_failed(view: SweepView, results: Results) -> list[int]:
    """Return the trials that have failed since the stored status."""
    stored_phases: Mapping[int, TrialPhase] = {result.trial: result.phase for result in view.status.results or ()}
    return [
        trial
        for trial, result in results.items()
        if result.phase is TrialPhase.FAILED and stored_phases.get(trial) is not TrialPhase.FAILED
    ]
