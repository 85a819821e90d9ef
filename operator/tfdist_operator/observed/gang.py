"""How a gang is now, from its pods and from what the status remembers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfdist.contract import Role
from tfdist.render.gang import Gang, Member
from tfdist_operator.observed.pod import CANNOT_START, PodState, PodSummary
from tfdist_operator.observed.record import GangRecord, replica_name

_DECIDING = frozenset({Role.CHIEF, Role.WORKER, Role.EVALUATOR, Role.EVALUATION})
"""A parameter server ends when it is told to, and never decides."""


@dataclass(frozen=True, slots=True)
class GangState:
    """One gang now. `pods` are those of the members' present attempts; `missing` are members without a pod."""

    gang: Gang
    record: GangRecord
    pods: tuple[PodSummary, ...]
    missing: tuple[Member, ...]

    @property
    def attempt(self) -> int:
        """The newest attempt."""
        return self.record.attempt

    @property
    def leader(self) -> PodSummary | None:
        """The leader's pod."""
        wanted = (self.gang.leader.role, self.gang.leader.index)
        return next((p for p in self.pods if (p.role, p.index) == wanted), None)

    @property
    def leader_succeeded(self) -> bool:
        """Whether the leader has ended with success."""
        return replica_name(self.gang.leader) in self.record.completed

    @property
    def all_succeeded(self) -> bool:
        """Whether every member that decides has ended with success."""
        deciding = [m for m in self.gang.members if m.role in _DECIDING]
        return all(replica_name(m) in self.record.completed for m in deciding)

    @property
    def all_started(self) -> bool:
        """Whether every member runs or has ended."""
        return not self.missing and all(p.state is not PodState.PENDING for p in self.pods)

    @property
    def vanished(self) -> tuple[Member, ...]:
        """Members whose pods were deleted after they had run."""
        if not self.record.ran:
            return ()
        return tuple(m for m in self.missing if replica_name(m) not in self.record.starting)

    @property
    def lost(self) -> list[PodSummary]:
        """Members that failed, or that somebody is deleting while they had not ended."""
        return [
            p
            for p in self.pods
            if replica_name(member_of(p)) not in self.record.completed
            and (p.state is PodState.FAILED or (p.deleting and not p.ended))
        ]

    @property
    def blocked(self) -> PodSummary | None:
        """The first pod that cannot start, or that no node can take."""
        pending = [p for p in self.pods if p.state is PodState.PENDING]
        unable = next((p for p in pending if p.reason in CANNOT_START), None)
        return unable or next((p for p in pending if p.reason == "Unschedulable"), None)


def member_of(pod: PodSummary) -> Member:
    """Return which replica a pod runs."""
    return Member(pod.role, pod.index)


def gang_state(gang: Gang, record: GangRecord, pods: Sequence[PodSummary]) -> GangState:
    """Return the state of `gang`, given all pods of the job.

    What the pods show goes into the record: who has ended with success, and that all have run.
    """
    current = {(p.role, p.index): p for p in pods if p.attempt == record.attempt_of(member_of(p))}
    mine = [current.get((m.role, m.index)) for m in gang.members]
    found = tuple(p for p in mine if p is not None)
    completed = record.completed | {replica_name(member_of(p)) for p in found if p.state is PodState.SUCCEEDED}
    missing = tuple(
        m for m, p in zip(gang.members, mine, strict=True) if p is None and replica_name(m) not in completed
    )
    started = {replica_name(member_of(p)) for p in found if p.state is not PodState.PENDING}
    state = GangState(gang, replace(record, completed=completed, starting=record.starting - started), found, missing)
    return replace(state, record=replace(state.record, ran=record.ran or state.all_started))
