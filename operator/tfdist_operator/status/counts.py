"""How many replicas of each role are in which state."""

from collections.abc import Iterable, Mapping
from typing import Any

from tfdist.render.gang import Gang
from tfdist_operator.observed.gang import GangState, member_of
from tfdist_operator.observed.pod import PodState
from tfdist_operator.observed.record import replica_name


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
                result[role] = {**stored[role], "desired": desired}
            else:
                result[role] = _counts(desired, role, state)
    return result


def _counts(desired: int, role: str, state: GangState | None) -> dict[str, int]:
    pods = [p for p in state.pods if p.role == role] if state else []
    states = [p.state for p in pods]
    gone = _completed_and_gone(role, state) if state else 0
    return {
        "desired": desired,
        "pending": max(0, desired - sum(s is not PodState.PENDING for s in states) - gone),
        "running": states.count(PodState.RUNNING),
        "ready": sum(p.ready for p in pods),
        "succeeded": states.count(PodState.SUCCEEDED) + gone,
        "failed": states.count(PodState.FAILED),
    }


def _completed_and_gone(role: str, state: GangState) -> int:
    """Return how many replicas are known to have succeeded, whose pods are gone."""
    there = {member_of(p) for p in state.pods}
    gone = (m for m in state.gang.members if m.role == role and m not in there)
    return sum(replica_name(m) in state.record.completed for m in gone)
