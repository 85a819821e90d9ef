"""How many replicas of each role are in which state."""

from collections.abc import Iterable, Mapping
from typing import Any

from tfdist.render.gang import Gang
from tfdist_operator.observed.gang import GangState
from tfdist_operator.observed.pod import PodState


def replica_counts(gangs: Iterable[Gang], states: Iterable[GangState], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return `status.replicas`: for each role of all gangs what is desired, and how those that exist are.

    A role that is not looked at any more, as that of a finished gang, keeps what is stored.
    """
    by_gang = {state.gang.name: state for state in states}
    result: dict[str, Any] = {}
    for gang in gangs:
        state = by_gang.get(gang.name)
        for role, desired in gang.sizes().items():
            if state is None and role in stored:
                result[role] = stored[role]
                continue
            pods = [p for p in state.pods if str(p.role) == role] if state else []
            result[role] = _counts(desired, [p.state for p in pods], sum(p.ready for p in pods))
    return result


def _counts(desired: int, states: list[PodState], ready: int) -> dict[str, int]:
    started = sum(s is not PodState.PENDING for s in states)
    return {
        "desired": desired,
        "pending": desired - started,
        "running": states.count(PodState.RUNNING),
        "ready": ready,
        "succeeded": states.count(PodState.SUCCEEDED),
        "failed": states.count(PodState.FAILED),
    }
