"""The state of a gang, from its pods and its record in the status."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tfdist.api.gang_status import GangStatus
from tfdist.contract import Role
from tfdist.observed.pod import CANNOT_START, PodState, PodSummary
from tfdist.render.gang import Gang, Member

COUNTED_ROLES = frozenset({Role.CHIEF, Role.WORKER, Role.EVALUATOR, Role.EVALUATION})
"""Roles whose success counts; a parameter server never ends by itself."""

_NODES: Final = "nodes are available"
"""Part of the scheduler's message about a resource; the messages of the other pods of a gang name only this pod."""


@dataclass(frozen=True, slots=True)
class GangState:
    """One gang. `pods` belong to the members' current attempts; `missing` are members without a pod."""

    gang: Gang
    record: GangStatus
    pods: tuple[PodSummary, ...]
    missing: tuple[Member, ...]

    @property
    def attempt(self) -> int:
        """The newest attempt."""
        return self.record.attempt

    @property
    def leader(self) -> PodSummary | None:
        """The leader's pod."""
        leader = self.gang.leader
        # A plan asks a dozen times.
        for pod in self.pods:
            if pod.index == leader.index and pod.role is leader.role:
                return pod
        return None

    @property
    def leader_succeeded(self) -> bool:
        """Whether the leader has succeeded."""
        return self.gang.leader.name in self.record.completed

    @property
    def all_succeeded(self) -> bool:
        """Whether every member whose success counts has succeeded."""
        counted = [m for m in self.gang.members if m.role in COUNTED_ROLES]
        return all(m.name in self.record.completed for m in counted)

    @property
    def countable_members(self) -> int:
        """How many members a gang scheduler can count: while one waits for a node, only those that have not completed.

        A scheduler forgets pods that have ended.
        """
        waits = bool(self.missing) or any(p.state is PodState.PENDING and not p.node for p in self.pods)
        return len(self.gang.members) - (len(self.record.completed) if waits else 0)

    @property
    def all_started(self) -> bool:
        """Whether every member runs or has ended."""
        return not self.missing and all(p.state is not PodState.PENDING for p in self.pods)

    @property
    def deleted_members(self) -> tuple[Member, ...]:
        """Members whose pods were deleted after they had run."""
        if not self.record.has_run:
            return ()
        return tuple(m for m in self.missing if m.name not in self.record.pending_replacements)

    @property
    def failed_or_terminating(self) -> list[PodSummary]:
        """Pods of members that failed, or that are terminating before they ended."""
        return [
            p
            for p in self.pods
            if p.replica not in self.record.completed and (p.state is PodState.FAILED or (p.deleting and not p.ended))
        ]

    @property
    def unschedulable(self) -> list[PodSummary]:
        """Pods that the scheduler finds no node for; those whose messages name the missing resource come first."""
        return sorted((p for p in self.pods if p.unschedulable), key=lambda p: _NODES not in p.message)

    @property
    def unstartable(self) -> PodSummary | None:
        """The first pod whose container cannot start, or that is unschedulable."""
        pending = [p for p in self.pods if p.state is PodState.PENDING]
        unable = next((p for p in pending if p.reason in CANNOT_START), None)
        return unable or next(iter(self.unschedulable), None)


def member_of(pod: PodSummary) -> Member:
    """Return the member that a pod runs."""
    return Member(pod.role, pod.index)


def gang_state(gang: Gang, record: GangStatus, pods: Sequence[PodSummary]) -> GangState:
    """Return the state of `gang`, given all pods of the job.

    The record is updated from the pods: members that succeeded, and whether all have run.
    """
    current = {(p.role, p.index): p for p in pods if p.attempt == record.attempt_of(p.replica)}
    member_pods = [current.get((m.role, m.index)) for m in gang.members]
    existing = tuple(p for p in member_pods if p is not None)
    completed = record.completed | {p.replica for p in existing if p.state is PodState.SUCCEEDED}
    missing = tuple(m for m, p in zip(gang.members, member_pods, strict=True) if p is None and m.name not in completed)
    started = {p.replica for p in existing if p.state is not PodState.PENDING}
    state = GangState(
        gang,
        record.changed(completed=completed, pending_replacements=record.pending_replacements - started),
        existing,
        missing,
    )
    return replace(state, record=state.record.changed(has_run=record.has_run or state.all_started))
