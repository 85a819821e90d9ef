"""The decision about one gang in one reconcile."""

from collections.abc import Sequence
from dataclasses import dataclass

from tfdist.api.status import ConditionType, ReplicaFailure
from tfdist.observed.gang_state import GangState
from tfdist.planner.plan import Event, ProbeTarget
from tfdist.render.gang import Member
from tfdist.status.conditions import Condition


@dataclass(frozen=True, slots=True)
class GangFailure:
    """Why a gang has failed permanently."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class GangDecision:
    """What to do for a gang. `state` is the state to continue with; its record is written to the status."""

    state: GangState
    create: tuple[Member, ...] = ()
    conditions: tuple[Condition, ...] = ()
    failures: tuple[ReplicaFailure, ...] = ()
    failure: GangFailure | None = None
    events: tuple[Event, ...] = ()
    probes: tuple[ProbeTarget, ...] = ()
    probe_id: str = ""
    unexplained_pod: str = ""
    """Name of a pod whose events may have the reason why it has not started."""
    requeue_after_seconds: float | None = None


def not_ready(reason: str, message: str) -> Condition:
    """Return the condition `PodsReady=False`."""
    return Condition(ConditionType.PODS_READY, False, reason, message)


def min_delay(times: Sequence[float | None]) -> float | None:
    """Return the shortest of several delays in seconds, at least 0; None if all are None."""
    known = [t for t in times if t is not None]
    return max(0.0, min(known)) if known else None
