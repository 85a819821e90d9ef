"""Early stopping and resuming of trials by the rungs in the sweep's status."""

from collections.abc import Collection, Mapping

from tfdist.api.sweep import StoppingMethod, TFDistSweepSpec
from tfdist.api.sweep_status import RungStatus, TrialPhase, TrialResult
from tfdist.reasons import SweepReason
from tfdist.sweep_planner.observation import Observation
from tfdist.sweep_planner.results import Results
from tfdist.sweeps.early_stopping import Rungs, asha, median, promoted


def stop_trials(
    spec: TFDistSweepSpec, stored: list[RungStatus], results: Results, observed: Mapping[int, Observation]
) -> tuple[list[RungStatus], Results]:
    """Return the rungs after the newest values, and the results with the trials that stop.

    Args:
        spec: specification of the sweep.
        stored: the rungs in the status.
        results: results of the trials.
        observed: metrics of the trials by the statuses of their jobs.
    """
    options = spec.early_stopping
    if options is None:
        return stored, results
    comparable = {TrialPhase.RUNNING, TrialPhase.SUCCEEDED}  # others are compared with one that has ended, too
    latest = {
        trial: observation.latest
        for trial, observation in observed.items()
        if observation.latest is not None and results[trial].phase in comparable
    }
    judge = asha if options.method is StoppingMethod.ASHA else median
    rungs, stopped = judge(options, _values(stored), latest, maximizes=spec.maximizes)
    running = {trial for trial in stopped if results[trial].phase is TrialPhase.RUNNING}
    return _statuses(rungs), results | {trial: _stopped(results, trial) for trial in running}


def resume_trials(
    spec: TFDistSweepSpec, rungs: list[RungStatus], results: Results, available: Collection[int], places: int
) -> Results:
    """Return the results with up to `places` stopped trials that run again: the best ones of the highest rungs.

    Args:
        spec: specification of the sweep.
        rungs: the rungs.
        results: results of the trials.
        available: trials whose jobs exist.
        places: number of trials that may run in addition.
    """
    options = spec.early_stopping
    if options is None or not options.resume or places < 1:
        return results
    stopped = frozenset(trial for trial in available if results[trial].phase is TrialPhase.STOPPED)
    selected = promoted(options, _values(rungs), stopped, maximizes=spec.maximizes)[:places]
    running = {"phase": TrialPhase.RUNNING, "reason": None}
    return results | {trial: results[trial].model_copy(update=running) for trial in selected}


def _stopped(results: Results, trial: int) -> TrialResult:
    return results[trial].model_copy(update={"phase": TrialPhase.STOPPED, "reason": str(SweepReason.STOPPED_EARLY)})


def _values(rungs: list[RungStatus]) -> Rungs:
    return {rung.step: {int(trial): value for trial, value in rung.values.items()} for rung in rungs}


def _statuses(rungs: Rungs) -> list[RungStatus]:
    return [
        RungStatus(step=step, values={str(trial): value for trial, value in sorted(values.items())})
        for step, values in sorted(rungs.items())
    ]
