"""What one look at one gang results in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfdist.api.status import ConditionType
from tfdist.render.gang import Member
from tfdist_operator.observed.gang import GangState
from tfdist_operator.planner.plan import Event, Question
from tfdist_operator.status.conditions import Condition


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a gang is given up."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Step:
    """`state` is that of the gang to go on with; its record is to be stored."""

    state: GangState
    create: tuple[Member, ...] = ()
    conditions: tuple[Condition, ...] = ()
    failures: tuple[dict[str, Any], ...] = ()
    failed: Failed | None = None
    events: tuple[Event, ...] = ()
    ask: tuple[Question, ...] = ()
    ask_about: str = ""
    requeue_after_seconds: float | None = None


def not_ready(reason: str, message: str) -> Condition:
    """Return the condition that not all replicas run."""
    return Condition(ConditionType.PODS_READY, False, reason, message)


def earliest(times: Sequence[float | None]) -> float | None:
    """Return the shortest of several waits, of which any may be none."""
    known = [t for t in times if t is not None]
    return max(0.0, min(known)) if known else None
