"""Counts of replicas by role and state."""

from collections.abc import Iterable, Mapping, Sequence

from tfdist.api.status import ReplicaCounts
from tfdist.observed.gang_state import GangState
from tfdist.observed.pod import PodState, PodSummary
from tfdist.render.gang import Gang

Counts = Mapping[str, ReplicaCounts]
"""`status.replicas`: counts by role."""


def replica_counts(gangs: Iterable[Gang], states: Iterable[GangState], stored: Counts) -> dict[str, ReplicaCounts]:
    """Return `status.replicas`: desired and observed counts for each role of all gangs.

    A role without a state, as in a completed gang, keeps its stored counts.
    """
    by_gang = {state.gang.name: state for state in states}
    result: dict[str, ReplicaCounts] = {}
    for gang in gangs:
        state = by_gang.get(gang.name)
        for role, desired in gang.sizes().items():
            if state is None and role in stored:
                result[str(role)] = stored[role].model_copy(update={"desired": desired})
            else:
                result[str(role)] = _counts(desired, role, state)
    return result


def final_counts(stored: Counts, pods: Iterable[PodSummary]) -> dict[str, ReplicaCounts]:
    """Return the final `status.replicas` of a finished job; deleted pods keep their stored counts.

    Args:
        stored: `status.replicas` as stored.
        pods: the existing pods of the last attempts.
    """
    existing_pods = list(pods)
    return {
        role: _final_role_counts(counts, [p for p in existing_pods if p.role == role])
        for role, counts in stored.items()
    }


def _final_role_counts(stored: ReplicaCounts, pods: Sequence[PodSummary]) -> ReplicaCounts:
    states = [p.state for p in pods]
    failed = sum(p.state is PodState.FAILED and not p.deleting for p in pods)  # without terminating ones
    succeeded = max(stored.succeeded, states.count(PodState.SUCCEEDED))
    return ReplicaCounts(
        desired=stored.desired,
        pending=states.count(PodState.PENDING),
        running=states.count(PodState.RUNNING),
        ready=sum(p.ready for p in pods),
        succeeded=succeeded,
        failed=min(max(stored.failed, failed), max(0, stored.desired - succeeded)),
    )


def _counts(desired: int, role: str, state: GangState | None) -> ReplicaCounts:
    pods = [p for p in state.pods if p.role == role] if state else []
    states = [p.state for p in pods]
    without_pod = _succeeded_without_pod(role, state) if state else 0
    return ReplicaCounts(
        desired=desired,
        pending=max(0, desired - sum(s is not PodState.PENDING for s in states) - without_pod),
        running=states.count(PodState.RUNNING),
        ready=sum(p.ready for p in pods),
        succeeded=states.count(PodState.SUCCEEDED) + without_pod,
        failed=states.count(PodState.FAILED),
    )


def _succeeded_without_pod(role: str, state: GangState) -> int:
    """Return the number of replicas of a role that succeeded and have no pod any more."""
    if not state.record.completed:
        return 0
    names = state.record.completed - {p.replica for p in state.pods}
    return sum(m.name in names for m in state.gang.members if m.role == role)
