"""What the leader knows of each member: its seat, and how a round of all of them stands."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tfdist.contract import ExitCode, LaunchMember
from tfdist.contract_reports import ProgressReport
from tfdist_launch.limits import Casualty
from tfdist_launch.member import LEASE_SECONDS, STOP_GRACE_SECONDS
from tfdist_launch.messages import Beat, Hello, Message, Stop

DRAIN_SECONDS: Final = 20.0
"""How long others may take to end by themselves after one has saved on notice: the chief may still be writing."""

Link = int
"""Names a connection; never used again for another."""


class Program(StrEnum):
    """The program of a seat, as far as the leader knows."""

    NONE = "none"
    RUNNING = "running"
    STOPPING = "stopping"


class Standing(StrEnum):
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
    """Close a connection, after what has been sent."""

    link: Link


Effect = Send | Close


@dataclass(slots=True)
class Seat:
    """One member's place. It is vacant while no launcher is connected."""

    member: LaunchMember
    link: Link | None = None
    rank: tuple[int, float] = (-1, 0.0)
    """Of the latest launcher that sat here."""
    program: Program = Program.NONE
    round: int = -1
    """The round that its program was last started for."""
    done: bool = False
    """Whether that program ended with success."""
    leaving: bool = False
    casualty: Casualty | None = None
    beat: Beat | None = None
    standby: int | None = None
    """The round for which it has told of a program in reserve."""
    silent_since: float | None = None
    """When it was last heard, where its connection was lost by silence."""
    not_before: float = 0.0
    """When its program may be started alone."""

    @property
    def name(self) -> str:
        """How people call the member, as `worker-3`."""
        return f"{self.member.role}-{self.member.index}"

    @property
    def active(self) -> bool:
        """Whether a program of it runs, or may."""
        return self.program is not Program.NONE

    @property
    def ready(self) -> bool:
        """Whether its program can be started."""
        return self.link is not None and not self.active and not self.leaving

    @property
    def report(self) -> ProgressReport | None:
        """What its program has told last."""
        return self.beat.report if self.beat else None

    def started(self, number: int) -> None:
        """Its program has been started for a round."""
        self.program, self.round, self.done = Program.RUNNING, number, False
        self.casualty = self.beat = self.standby = None


def refusal(seats: Sequence[Seat], job: str, hello: Hello) -> str:
    """Return why a launcher that says hello to this gang is turned away; "" where it is not."""
    if hello.job != job:
        return f"this is job {job}, not {hello.job}"
    if not 0 <= hello.seat < len(seats):
        return f"there is no seat {hello.seat}"
    seat = seats[hello.seat]
    if hello.attempt < seat.member.attempt or hello.rank < seat.rank:
        return f"a later launcher of {seat.name} has this seat"
    return ""


def missed(seats: Sequence[Seat]) -> Seat | None:
    """Return the member whose program runs and has stopped giving signs of life: whom the others may have lost.

    TensorFlow's own peers can find out sooner than the watch for stalls, and each of them then fails as if that one
    were gone.
    """
    return next((s for s in seats if s.program is Program.RUNNING and s.beat is not None and not s.beat.alive), None)


def stood_still(seat: Seat) -> Casualty:
    """Return the failure of a member whose program is there and does nothing."""
    text = f"the program of {seat.name} gives no sign of life, and its peers have lost it: is it stopped, or starved?"
    return Casualty(role=seat.member.role, index=seat.member.index, exit_code=None, message=text)


def was_away(seat: Seat, now: float) -> Casualty:
    """Return the failure of a member whose launcher could not be reached until now."""
    away = now - (seat.silent_since or now) + LEASE_SECONDS
    text = f"nothing was heard of {seat.name} for {away:.0f} s: its node or the network did not answer"
    return Casualty(role=seat.member.role, index=seat.member.index, exit_code=None, message=text)


def stops(seats: Sequence[Seat], exit_code: int | None) -> list[Effect]:
    """Have the programs of a round stopped; `exit_code` is that of the one that ended it by itself."""
    notice = exit_code == ExitCode.STOPPED_ON_NOTICE
    grace = DRAIN_SECONDS if notice else STOP_GRACE_SECONDS
    effects: list[Effect] = []
    for seat in seats:
        if seat.program is Program.RUNNING and seat.link is not None:
            seat.program = Program.STOPPING
            effects.append(Send(seat.link, Stop(round=seat.round, grace_seconds=grace, at_once=not notice)))
    return effects
