"""The phase: a summary of the conditions in one word, derived from them and from nothing else."""

from collections.abc import Mapping
from typing import Any, Final

from tfdist.api.status import ConditionType, JobPhase
from tfdist_operator.status.conditions import find, is_true

TRAINED: Final = "TrainingSucceeded"
"""Reason of `Running=False` once training has succeeded: it is remembered when its pods are gone."""

EVALUATE_ONLY: Final = "EvaluateOnly"
"""Reason of `Running=False` of a job that evaluates and does not train."""

CANNOT_CREATE: Final = "CreationRefused"
IMAGE_ERROR: Final = "ImageError"
CONFIG_ERROR: Final = "ConfigError"
UNSCHEDULABLE: Final = "Unschedulable"
PROBLEMS: Final = frozenset({CANNOT_CREATE, IMAGE_ERROR, CONFIG_ERROR, UNSCHEDULABLE})
"""Reasons of `PodsReady=False` that people have to act on."""

_TERMINAL: Final = ((ConditionType.SUCCEEDED, JobPhase.SUCCEEDED), (ConditionType.FAILED, JobPhase.FAILED))
_ACTIVE: Final = (
    (ConditionType.RESTARTING, JobPhase.RESTARTING),
    (ConditionType.RUNNING, JobPhase.RUNNING),
)


SUSPENDING: Final = "Suspending"
SUSPENDED: Final = "Suspended"
_STANDING_STILL: Final = {SUSPENDING: JobPhase.SUSPENDING, SUSPENDED: JobPhase.SUSPENDED}


def is_terminal(status: Mapping[str, Any]) -> bool:
    """Return whether the job has ended; it never changes again."""
    return any(is_true(status, kind) for kind, _ in _TERMINAL)


def has_trained(status: Mapping[str, Any]) -> bool:
    """Return whether training has succeeded."""
    running = find(status, ConditionType.RUNNING)
    return running is not None and running["reason"] == TRAINED


def is_given_up(status: Mapping[str, Any]) -> bool:
    """Return whether evaluation is known to have failed."""
    known = find(status, ConditionType.EVALUATED)
    return known is not None and known["status"] == "False"


def is_standing_still(status: Mapping[str, Any]) -> bool:
    """Return whether the job is suspended, or on its way there."""
    suspended = find(status, ConditionType.SUSPENDED)
    return suspended is not None and suspended["reason"] in _STANDING_STILL


def phase_of(status: Mapping[str, Any]) -> JobPhase:
    """Return the phase that the conditions of `status` amount to."""
    for kind, phase in _TERMINAL:
        if is_true(status, kind):
            return phase
    if is_true(status, ConditionType.INVALID):
        return JobPhase.INVALID
    suspended = find(status, ConditionType.SUSPENDED)
    if suspended is not None and suspended["reason"] in _STANDING_STILL:
        return _STANDING_STILL[suspended["reason"]]
    running = find(status, ConditionType.RUNNING)
    if running is not None and running["reason"] in {TRAINED, EVALUATE_ONLY}:
        return JobPhase.EVALUATING
    for kind, phase in _ACTIVE:
        if is_true(status, kind):
            return phase
    return JobPhase.STARTING if find(status, ConditionType.PODS_READY) else JobPhase.PENDING
