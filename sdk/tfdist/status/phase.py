"""The phase: a one-word summary, derived from the conditions only; and how long a job has been in `Starting`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from tfdist.api.status import ConditionType, JobCondition, JobPhase, TFDistJobStatus
from tfdist.outcome import find_condition
from tfdist.reasons import ConditionReason
from tfdist.status.conditions import is_true
from tfdist.timestamps import parse_time

PROBLEMS: Final = frozenset(
    {
        ConditionReason.FAILED_CREATE,
        ConditionReason.IMAGE_ERROR,
        ConditionReason.CONFIG_ERROR,
        ConditionReason.CHECKPOINT_DIRECTORY_IN_USE,
        ConditionReason.EXPORT_DIRECTORY_IN_USE,
        ConditionReason.GANG_SCHEDULER_MISSING,
        ConditionReason.GANG_SCHEDULER_UNKNOWN,
        ConditionReason.UNSCHEDULABLE,
    }
)
"""Reasons of `PodsReady=False` that need an action by the user."""
_TERMINAL: Final = ((ConditionType.SUCCEEDED, JobPhase.SUCCEEDED), (ConditionType.FAILED, JobPhase.FAILED))
_ACTIVE: Final = (
    (ConditionType.RESTARTING, JobPhase.RESTARTING),
    (ConditionType.RUNNING, JobPhase.RUNNING),
)

SUSPENDED_PHASES: Final[Mapping[str, JobPhase]] = {
    ConditionReason.SUSPENDING: JobPhase.SUSPENDING,
    ConditionReason.SUSPENDED: JobPhase.SUSPENDED,
    ConditionReason.EVICTED: JobPhase.SUSPENDING,
    ConditionReason.QUEUED: JobPhase.QUEUED,
}
"""Phases of a job that is suspended, by the user or by its queue; by reason of the condition `Suspended`."""


def is_terminal(status: TFDistJobStatus) -> bool:
    """Return whether the job has finished; a finished job never changes its outcome."""
    return any(is_true(status, kind) for kind, _ in _TERMINAL)


def training_succeeded(status: TFDistJobStatus) -> bool:
    """Return whether training has succeeded."""
    running = find_condition(status, ConditionType.RUNNING)
    return running is not None and running.reason == ConditionReason.TRAINING_SUCCEEDED


def evaluation_failure(status: TFDistJobStatus) -> JobCondition | None:
    """Return the condition of a failed evaluation; None without one, or if the evaluation may begin again."""
    evaluated = find_condition(status, ConditionType.EVALUATED)
    return (
        evaluated
        if evaluated is not None and evaluated.status == "False" and evaluated.reason != ConditionReason.RESUMED
        else None
    )


def evaluation_failed(status: TFDistJobStatus) -> bool:
    """Return whether evaluation has failed."""
    return evaluation_failure(status) is not None


def is_suspended_or_suspending(status: TFDistJobStatus) -> bool:
    """Return whether the job is suspended or being suspended."""
    suspended = find_condition(status, ConditionType.SUSPENDED)
    return suspended is not None and suspended.reason in SUSPENDED_PHASES


def phase_of(status: TFDistJobStatus) -> JobPhase:
    """Return the phase that follows from the conditions of `status`."""
    for kind, phase in _TERMINAL:
        if is_true(status, kind):
            return phase
    invalid = find_condition(status, ConditionType.INVALID)
    if invalid is not None and invalid.status == "True" and invalid.reason != ConditionReason.INVALID_UPDATE:
        return JobPhase.INVALID
    suspended = find_condition(status, ConditionType.SUSPENDED)
    if suspended is not None and suspended.reason in SUSPENDED_PHASES:
        return SUSPENDED_PHASES[suspended.reason]
    running = find_condition(status, ConditionType.RUNNING)
    if running is not None and running.reason in {ConditionReason.TRAINING_SUCCEEDED, ConditionReason.EVALUATE_ONLY}:
        return JobPhase.EVALUATING
    for kind, phase in _ACTIVE:
        if is_true(status, kind):
            return phase
    return JobPhase.STARTING if find_condition(status, ConditionType.PODS_READY) else JobPhase.PENDING


def starting_seconds(status: TFDistJobStatus, now: datetime) -> float:
    """Return for how many seconds a job in phase `Starting` has not been ready, for a metric; 0 for any other job.

    A malformed time, written by hand, counts as 0.
    """
    condition = find_condition(status, ConditionType.PODS_READY)
    if status.phase is not JobPhase.STARTING or condition is None:
        return 0.0
    try:
        return max(0.0, (now - parse_time(condition.last_transition_time)).total_seconds())
    except ValueError:
        return 0.0
