"""The conditions of a sweep, and the phase that follows from them."""

from collections.abc import Iterable

from tfdist.api.sweep import TFDistSweep
from tfdist.api.sweep_status import SweepCondition, SweepConditionType, SweepPhase, TFDistSweepStatus
from tfdist.reasons import SweepReason
from tfdist.status.conditions import Condition, merge
from tfdist.sweep_planner.outcome import Outcome, best_text
from tfdist.sweep_planner.view import SweepView
from tfdist.validation.errors import summary


def with_conditions(
    status: TFDistSweepStatus, view: SweepView, sweep: TFDistSweep | None, end: Outcome | None, now: str
) -> TFDistSweepStatus:
    """Return the status with its conditions and its phase.

    Args:
        status: the new status, apart from these.
        view: the observed state.
        sweep: the sweep; None for an invalid one.
        end: the end of the sweep; None while it runs.
        now: the time, RFC 3339.
    """
    stored = view.status.conditions or []
    new_conditions = list(_conditions(status, view, sweep, end, {condition.type for condition in stored}))
    conditions = merge(stored, new_conditions, SweepCondition, view.generation, now)
    return status.model_copy(update={"conditions": conditions, "phase": phase_of_sweep(conditions)})


def _conditions(
    status: TFDistSweepStatus, view: SweepView, sweep: TFDistSweep | None, end: Outcome | None, types: set[str]
) -> Iterable[Condition]:
    kind = SweepConditionType
    if sweep is None:
        yield Condition(kind.INVALID, True, SweepReason.INVALID, summary(view.problems))
        return
    if kind.INVALID in types:
        yield Condition(kind.INVALID, False, SweepReason.RUNNING, "the specification is valid")
    if end is not None:
        yield Condition(kind.RUNNING, False, SweepReason.FINISHED, "the sweep has finished")
        yield Condition(kind.SUCCEEDED if end.succeeded else kind.FAILED, True, end.reason, end.message)
    elif sweep.spec.suspend:
        yield Condition(kind.SUSPENDED, True, SweepReason.SUSPENDED, "spec.suspend is true")
        yield Condition(kind.RUNNING, False, SweepReason.SUSPENDED, "the sweep is suspended")
    else:
        if kind.SUSPENDED in types:
            yield Condition(kind.SUSPENDED, False, SweepReason.RESUMED, "the sweep was resumed")
        reason = SweepReason.CREATE_FAILED if view.create_error else SweepReason.RUNNING
        yield Condition(kind.RUNNING, True, reason, view.create_error or _progress(status, sweep))


def _progress(status: TFDistSweepStatus, sweep: TFDistSweep) -> str:
    trials = status.trials
    ended = trials.succeeded + trials.stopped + trials.failed if trials else 0
    text = f"{ended} of {trials.total if trials else 0} trials have ended, {trials.running if trials else 0} run"
    return f"{best_text(sweep.spec, status.best[0])}; {text}" if status.best else text


def phase_of_sweep(conditions: Iterable[SweepCondition]) -> SweepPhase:
    """Return the phase that follows from the conditions."""
    true_types = {condition.type for condition in conditions if condition.status == "True"}
    for kind in SweepConditionType.SUCCEEDED, SweepConditionType.FAILED, SweepConditionType.INVALID:
        if kind in true_types:
            return SweepPhase(kind.value)
    for kind in SweepConditionType.SUSPENDED, SweepConditionType.RUNNING:
        if kind in true_types:
            return SweepPhase(kind.value)
    return SweepPhase.PENDING
