"""The slots of a gang as the leader knows them: one for each member, with the state of its launcher and process."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tfdist.contract import ExitCode, LaunchMember, Role, replica_name
from tfdist.contract_reports import ProgressReport
from tfdist_launch.failures import ProcessFailure
from tfdist_launch.member import STOP_GRACE_SECONDS
from tfdist_launch.messages import GangFailed, Heartbeat, Hello, Message, StopRound

UNREACHABLE_SECONDS: Final = 5.0
"""A launcher that sends nothing for this time is unreachable: it sends a heartbeat every second."""

Link = int
"""Identifies a connection; never reused."""


class ProcessState(StrEnum):
    """The training process of a slot, as far as the leader knows."""

    NONE = "none"
    RUNNING = "running"
    STOPPING = "stopping"


class GangPhase(StrEnum):
    """The gang."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDING = "ending"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message over a connection."""

    link: Link
    message: Message


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection after everything queued has been sent."""

    link: Link


Effect = Send | Close


@dataclass(slots=True)
class Slot:
    """The state of one member. The slot is vacant while no launcher of the member is connected."""

    member: LaunchMember
    link: Link | None = None
    precedence: tuple[int, float] = (-1, 0.0)
    """`Hello.precedence` of the latest launcher of this slot."""
    process: ProcessState = ProcessState.NONE
    round: int = -1
    """The round that its process was last started for."""
    started_at: float = 0.0
    """When that round began."""
    done: bool = False
    """Whether that process succeeded."""
    terminating: bool = False
    """Whether its pod is terminating."""
    failure: ProcessFailure | None = None
    """Of the round that ends."""
    heartbeat: Heartbeat | None = None
    """The last one of the running process."""
    standby: int | None = None
    """The round that its standby process is ready for."""
    lease_expired: bool = False
    """Whether its connection was lost because its lease expired; reset when its launcher connects again."""
    not_before: float = 0.0
    """Earliest time of an independent restart."""
    received_at: float = 0.0
    """Time of the last message."""
    outage_seconds: float = 0.0
    """Length of the last time of this round without messages that was longer than `UNREACHABLE_SECONDS`."""
    outage_ended_at: float = 0.0

    @property
    def name(self) -> str:
        """Name of the replica, as `worker-3`."""
        return replica_name(self.member.role, self.member.index)

    @property
    def active(self) -> bool:
        """Whether a process of it runs, or may run."""
        return self.process is not ProcessState.NONE

    @property
    def ready(self) -> bool:
        """Whether its process can be started."""
        return self.link is not None and not self.active and not self.terminating

    @property
    def report(self) -> ProgressReport | None:
        """The last progress report of its process."""
        return self.heartbeat.report if self.heartbeat else None

    def begin_round(self, number: int, now: float) -> None:
        """Reset it for round `number`, whose process is started."""
        self.started_at = now
        self.process, self.round, self.done, self.outage_seconds = ProcessState.RUNNING, number, False, 0.0
        self.failure = self.heartbeat = self.standby = None

    def ran_seconds(self, now: float) -> float:
        """Return how long ago the round of its process began; 0 before the first."""
        return now - self.started_at if self.round >= 0 else 0.0

    def record_message(self, now: float) -> None:
        """Record the arrival of a message."""
        # Known only now, as the silence ends; while it lasts, `is_any_unreachable` tells.
        if self.received_at and now - self.received_at > UNREACHABLE_SECONDS:
            self.outage_seconds, self.outage_ended_at = now - self.received_at, now
        self.received_at = now


def rejection_reason(slots: Sequence[Slot], job: str, hello: Hello) -> str:
    """Return why the leader rejects a launcher; "" if it does not."""
    if hello.job != job:
        return f"this is job {job}, not {hello.job}"
    if not 0 <= hello.rank < len(slots):
        return f"there is no member of rank {hello.rank}"
    slot = slots[hello.rank]
    # The attempt comes before the start time: clocks of nodes differ.
    if hello.attempt < slot.member.attempt or hello.precedence < slot.precedence:
        return f"a later launcher of {slot.name} has taken this slot"
    return ""


def first_unresponsive(slots: Sequence[Slot]) -> Slot | None:
    """Return the first slot whose process runs and sends no heartbeat; None if all do.

    TensorFlow's peers may detect it before the stall detector does, and each of them then fails with `PeerLost`.
    """
    running = (s for s in slots if s.process is ProcessState.RUNNING)
    return next((s for s in running if s.heartbeat is not None and not s.heartbeat.alive), None)


def completed_members(slots: Sequence[Slot], independent: AbstractSet[Role]) -> list[str]:
    """Return the names of the members whose processes have exited with 0 and that the other members need."""
    return [slot.name for slot in slots if slot.done and slot.member.role not in independent]


def is_any_running(slots: Sequence[Slot], peers: frozenset[tuple[str, int]]) -> bool:
    """Return whether the process of one of `peers` (role and index) runs and sends heartbeats."""
    if not peers:
        return False
    peer_slots = (s for s in slots if (s.member.role, s.member.index) in peers and s.process is ProcessState.RUNNING)
    return any(s.link is not None and (s.heartbeat is None or s.heartbeat.alive) for s in peer_slots)


def newest_checkpoint(slots: Sequence[Slot]) -> int:
    """Return the step of the newest checkpoint that a member has reported, or -1."""
    reports = (slot.report for slot in slots)
    return max((r.last_checkpoint.step for r in reports if r and r.last_checkpoint), default=-1)


def last_step(slots: Sequence[Slot]) -> int | None:
    """Return the highest step that a member has reported."""
    return max((s.report.step for s in slots if s.report and s.report.step is not None), default=None)


def required_are_done(slots: Sequence[Slot]) -> bool:
    """Return whether all processes that the success of the gang requires have succeeded."""
    return all(slot.done for slot in slots if slot.member.required_for_success)


def failed_slot(slots: Sequence[Slot], failure: ProcessFailure) -> Slot:
    """Return the slot of the member that failed."""
    return next(s for s in slots if (s.member.role, s.member.index) == (failure.role, failure.index))


def leave_node(slots: Sequence[Slot], failure: ProcessFailure) -> list[Effect]:
    """Make the launcher of the failed member exit as its process did; no round starts before its replacement joins.

    The failure is neither counted nor recorded here: the controller does both for the pod, and replaces it on another
    node.
    """
    slot = failed_slot(slots, failure)
    slot.terminating = True
    if slot.link is None:
        return []
    return [Send(slot.link, GangFailed(exit_code=failure.launcher_exit_code, termination=failure.message))]


def stop_round(slots: Sequence[Slot], exit_code: int | None, saving_seconds: float) -> list[Effect]:
    """Stop all processes of a round; `exit_code` is of the process that ended the round, if one did.

    After one was preempted and saved, the chief may still write a checkpoint, for `saving_seconds`.
    """
    # The chief may be writing the checkpoint of the agreed step: it gets the time to save, and no SIGKILL at once.
    preempted = exit_code == ExitCode.PREEMPTED
    grace = saving_seconds if preempted else STOP_GRACE_SECONDS
    effects: list[Effect] = []
    for slot in slots:
        if slot.process is ProcessState.RUNNING and slot.link is not None:
            slot.process = ProcessState.STOPPING
            effects.append(Send(slot.link, StopRound(round=slot.round, grace_seconds=grace, at_once=not preempted)))
    return effects
