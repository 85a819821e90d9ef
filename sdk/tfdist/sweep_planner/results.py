"""The results of the trials: what is known of each by the sweep's status, and by the status of its job."""

from collections.abc import Mapping

from tfdist.api.status import JobPhase
from tfdist.api.sweep import TFDistSweepSpec
from tfdist.api.sweep_resource import trial_name
from tfdist.api.sweep_status import BestTrial, TrialCounts, TrialPhase, TrialResult
from tfdist.reasons import SweepReason
from tfdist.sweep_planner.observation import Observation, observe
from tfdist.sweep_planner.view import SweepView, TrialJob
from tfdist.sweeps.early_stopping import is_better, order_of_merit
from tfdist.sweeps.values import trial_values

Results = dict[int, TrialResult]


def update_results(view: SweepView, spec: TFDistSweepSpec) -> tuple[Results, dict[int, Observation]]:
    """Return the result of each trial that was created, and the metric of each job, by number of the trial.

    A trial that has ended keeps its result, also if its job is deleted.
    """
    stored = {result.trial: result for result in view.status.results or ()}
    observed = {trial: observe(spec, job.status) for trial, job in view.jobs.items() if job.owned}
    results = {}
    for trial in sorted(stored.keys() | view.jobs.keys() | view.rejected.keys()):
        job, rejected = view.jobs.get(trial), trial in view.rejected
        previous = stored.get(trial) or TrialResult(
            trial=trial, phase=TrialPhase.RUNNING, parameters=trial_values(spec, trial)
        )
        updated = _update_result(previous, job, observed.get(trial, Observation()), spec, rejected=rejected)
        results[trial] = _with_usage(updated, job)
    return results, observed


def counts(results: Mapping[int, TrialResult], total: int) -> TrialCounts:
    """Return the number of trials by phase."""
    phases = [result.phase for result in results.values()]
    return TrialCounts(
        total=total,
        running=phases.count(TrialPhase.RUNNING),
        succeeded=phases.count(TrialPhase.SUCCEEDED),
        stopped=phases.count(TrialPhase.STOPPED),
        failed=phases.count(TrialPhase.FAILED),
    )


def best_trials(
    view: SweepView, spec: TFDistSweepSpec, name: str, results: Results, observed: Mapping[int, Observation]
) -> list[BestTrial]:
    """Return the best trials, best first; those that failed are left out, since their values may come from the error.

    Args:
        view: the observed state.
        spec: specification of the sweep.
        name: name of the sweep.
        results: results of the trials.
        observed: metrics of the trials by the statuses of their jobs.
    """
    values = {
        trial: r.value for trial, r in results.items() if r.value is not None and r.phase is not TrialPhase.FAILED
    }
    order = order_of_merit(values, maximizes=spec.maximizes)[: spec.keep_best]
    stored = {best.trial: best for best in view.status.best or ()}
    return [_best(name, results[trial], stored.get(trial), observed.get(trial, Observation())) for trial in order]


def _best(name: str, result: TrialResult, stored: BestTrial | None, observed: Observation) -> BestTrial:
    """Return a trial with its checkpoint, from the stored entry once its job is deleted."""
    checkpoint = observed.checkpoint or (stored.checkpoint if stored else None)
    return BestTrial(
        trial=result.trial,
        job=trial_name(name, result.trial),
        parameters=result.parameters,
        value=result.value or 0.0,
        step=result.step or 0,
        checkpoint=checkpoint or None,
    )


def _update_result(
    stored: TrialResult, job: TrialJob | None, observation: Observation, spec: TFDistSweepSpec, *, rejected: bool
) -> TrialResult:
    if stored.phase in {TrialPhase.SUCCEEDED, TrialPhase.FAILED}:
        return stored
    result = stored
    if observation.best is not None and is_better(observation.best.value, stored.value, maximizes=spec.maximizes):
        result = stored.model_copy(update={"value": observation.best.value, "step": observation.best.step})
    if job is not None and job.owned and job.phase is JobPhase.SUCCEEDED:  # also one that was stopped at its last step
        if result.value is None and spec.metric_name is not None:
            return _ended(result, TrialPhase.FAILED, SweepReason.METRIC_MISSING)
        return _ended(result, TrialPhase.SUCCEEDED, "")
    failure = _failure(job, rejected=rejected) if stored.phase is TrialPhase.RUNNING else ""
    return _ended(result, TrialPhase.FAILED, failure) if failure else result


def _failure(job: TrialJob | None, *, rejected: bool) -> str:
    """Return why a trial has failed; "" if it has not."""
    if job is None:
        return SweepReason.REJECTED if rejected else SweepReason.JOB_DELETED
    if not job.owned:
        return SweepReason.NAME_TAKEN
    return job.end[0] if job.phase in {JobPhase.FAILED, JobPhase.INVALID} else ""


def _ended(result: TrialResult, phase: TrialPhase, reason: str) -> TrialResult:
    return result.model_copy(update={"phase": phase, "reason": str(reason)[:256] or None})


def _with_usage(result: TrialResult, job: TrialJob | None) -> TrialResult:
    """Return a result with what its job has used so far, which is known after its deletion too."""
    usage = job.status.usage if job is not None and job.owned else None
    if usage is None:
        return result
    seconds = {"gpu_seconds": usage.gpu_seconds, "cpu_seconds": usage.cpu_seconds}
    return result.model_copy(update={name: value for name, value in seconds.items() if value is not None})
