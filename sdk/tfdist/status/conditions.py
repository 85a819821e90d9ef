"""Conditions by the Kubernetes API conventions: one of each type; lastTransitionTime changes with the status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tfdist.api.status import ConditionType
from tfdist.status.text import message


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition to set, of a job or a sweep. `status` is its truth value."""

    type: StrEnum
    status: bool
    reason: str
    message: str
    reset_transition_time: bool = False
    """Whether lastTransitionTime is set also where `status` does not change: a deadline counts from it."""


def is_true(status: Mapping[str, Any], kind: ConditionType) -> bool:
    """Return whether the stored condition `kind` is True."""
    found = find(status, kind)
    return found is not None and found["status"] == "True"


def find(status: Mapping[str, Any], kind: ConditionType) -> Mapping[str, Any] | None:
    """Return the stored condition of a type; None without one."""
    return next((c for c in status.get("conditions", ()) if c["type"] == kind), None)


def merge(
    stored: Sequence[Mapping[str, Any]], new: Sequence[Condition], generation: int, now: str
) -> list[dict[str, Any]]:
    """Return the stored conditions, with the new ones in place of those of their types.

    lastTransitionTime changes only with `status` or `reset_transition_time`, so that an idle job is never written.
    """
    result = {c["type"]: dict(c) for c in stored}
    for condition in new:
        old = result.get(condition.type)
        status = "True" if condition.status else "False"
        same_status = old is not None and old["status"] == status and not condition.reset_transition_time
        result[str(condition.type)] = {
            "type": str(condition.type),
            "status": status,
            "reason": condition.reason,
            "message": message(condition.message)[:4096],
            "observedGeneration": generation,
            "lastTransitionTime": old["lastTransitionTime"] if old and same_status else now,
        }
    return list(result.values())
