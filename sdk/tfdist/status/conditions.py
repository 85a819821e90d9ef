"""Conditions by the Kubernetes API conventions: one of each type; lastTransitionTime changes with the status."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from tfdist.api.condition import StatusCondition
from tfdist.api.status import ConditionType, TFDistJobStatus
from tfdist.outcome import find_condition
from tfdist.status.text import message

Stored = TypeVar("Stored", bound=StatusCondition)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition to set, of a job or a sweep. `status` is its truth value."""

    type: StrEnum
    status: bool
    reason: str
    message: str
    reset_transition_time: bool = False
    """Whether lastTransitionTime is set also if `status` does not change: a deadline counts from it."""


def is_true(status: TFDistJobStatus, kind: ConditionType) -> bool:
    """Return whether the stored condition `kind` is True."""
    condition = find_condition(status, kind)
    return condition is not None and condition.status == "True"


def merge(
    stored: Sequence[Stored], new: Sequence[Condition], model: type[Stored], generation: int, now: str
) -> list[Stored]:
    """Return the stored conditions, with the new ones in place of old ones of the same types.

    lastTransitionTime changes only with `status` or `reset_transition_time`, so that an idle job is never written.

    Args:
        stored: conditions of a job or a sweep.
        new: conditions to set.
        model: the type of the stored ones.
        generation: `metadata.generation` of the resource.
        now: the time, RFC 3339.
    """
    result = {item.type: item for item in stored}
    for condition in new:
        previous = result.get(condition.type)
        status = "True" if condition.status else "False"
        text, reason = message(condition.message), condition.reason[:256]
        same_status = previous is not None and previous.status == status and not condition.reset_transition_time
        if previous is not None and same_status and _has(previous, reason, text, generation):
            continue
        result[condition.type] = model(
            type=condition.type,
            status=status,
            reason=reason,
            message=text,
            observed_generation=generation,
            last_transition_time=previous.last_transition_time if previous and same_status else now,
        )
    return list(result.values())


def _has(stored: StatusCondition, reason: str, text: str, generation: int) -> bool:
    return (stored.reason, stored.message, stored.observed_generation) == (reason, text, generation)
