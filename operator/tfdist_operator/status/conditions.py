"""Conditions as Kubernetes' API conventions define them: one of each type, the transition time kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfdist.api.status import ConditionType


@dataclass(frozen=True, slots=True)
class Condition:
    """What is to be said about one type now."""

    type: ConditionType
    holds: bool
    reason: str
    message: str
    anew: bool = False
    """Whether a time begins with it even where the status stays: what was to happen is over, and more begins."""


def is_true(status: Mapping[str, Any], kind: ConditionType) -> bool:
    """Return whether the stored status says that `kind` holds."""
    found = find(status, kind)
    return found is not None and found["status"] == "True"


def find(status: Mapping[str, Any], kind: ConditionType) -> Mapping[str, Any] | None:
    """Return the stored condition of a type."""
    return next((c for c in status.get("conditions", ()) if c["type"] == kind), None)


def merge(
    stored: Sequence[Mapping[str, Any]], new: Sequence[Condition], generation: int, now: str
) -> list[dict[str, Any]]:
    """Return the stored conditions with the new ones in their places.

    The transition time changes with `status` alone, and `observedGeneration` is not a change worth writing
    when nothing else differs, so that an idle job is never written.
    """
    result = {c["type"]: dict(c) for c in stored}
    for condition in new:
        old = result.get(condition.type)
        status = "True" if condition.holds else "False"
        same_status = old is not None and old["status"] == status and not condition.anew
        result[str(condition.type)] = {
            "type": str(condition.type),
            "status": status,
            "reason": condition.reason,
            "message": condition.message[:4096],
            "observedGeneration": generation,
            "lastTransitionTime": old["lastTransitionTime"] if old and same_status else now,
        }
    return list(result.values())
