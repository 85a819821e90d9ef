"""How a gang is in its current attempt, from its pods and from what the status remembers."""

from dataclasses import dataclass

from tfdist.render.gang import Gang, Member
from tfdist_operator.observed.pod import CANNOT_START, PodState, PodSummary


@dataclass(frozen=True, slots=True)
class GangState:
    """One gang in one attempt. `missing` are the members that have no pod."""

    gang: Gang
    attempt: int
    pods: tuple[PodSummary, ...]
    missing: tuple[Member, ...]

    @property
    def leader(self) -> PodSummary | None:
        """The leader's pod."""
        wanted = (self.gang.leader.role, self.gang.leader.index)
        return next((p for p in self.pods if (p.role, p.index) == wanted), None)

    @property
    def succeeded(self) -> bool:
        """Whether the leader has ended with success, which is the gang's."""
        leader = self.leader
        return leader is not None and leader.state is PodState.SUCCEEDED

    @property
    def all_started(self) -> bool:
        """Whether every member runs or has ended."""
        return not self.missing and all(p.state is not PodState.PENDING for p in self.pods)

    @property
    def failed(self) -> list[PodSummary]:
        """Members that failed, or that somebody is deleting while they had not ended."""
        return [p for p in self.pods if p.state is PodState.FAILED or (p.deleting and not p.ended)]

    @property
    def blocked(self) -> PodSummary | None:
        """The first pod that cannot start, or that no node can take."""
        pending = (p for p in self.pods if p.state is PodState.PENDING)
        return next((p for p in pending if p.reason in CANNOT_START or p.reason == "Unschedulable"), None)


def gang_state(gang: Gang, attempt: int, pods: tuple[PodSummary, ...]) -> GangState:
    """Return the state of `gang` in `attempt`, given all pods of the job."""
    current = {(p.role, p.index): p for p in pods if p.attempt == attempt}
    mine = [current.get((m.role, m.index)) for m in gang.members]
    missing = tuple(m for m, p in zip(gang.members, mine, strict=True) if p is None)
    return GangState(gang, attempt, tuple(p for p in mine if p is not None), missing)
