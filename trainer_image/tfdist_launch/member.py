"""One member's side of the rendezvous: a state machine without clocks, sockets or processes.

It is told what happens and answers with what is to be done. Its promise to the leader: whenever it greets, and
whenever it has said `Ended` or `Stopped`, no program of it runs. So it leaves a leader that it has lost only when its
program is gone, and begins no round that is not newer than every one it knows.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tfdist.contract_reports import ProgressReport
from tfdist_launch.messages import Done, Ended, GiveUp, Hello, Leaving, Message, Outcome, Refused, Start, Stop, Stopped

STOP_GRACE_SECONDS: Final = 0.5
"""Between SIGTERM and SIGKILL for a program whose round is over: it can save nothing without its peers."""

LEASE_SECONDS: Final = 10.0
"""Silence after which a connection is lost. Both sides count it, so after twice of it both know."""

SURE_SECONDS: Final = LEASE_SECONDS + 4 * STOP_GRACE_SECONDS
"""After a loss in silence, and so long, the other side has noticed too, and its program is gone."""

TERMINATED: Final = 143
"""Exit code of a launcher that is told to go while no program of it runs."""

REPLACED: Final = 75
"""Exit code of a launcher whose seat another has."""


class State(StrEnum):
    """Whether the program runs."""

    IDLE = "idle"
    RUNNING = "running"
    STOPPING = "stopping"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a message to the leader, if there is one."""

    message: Message


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start the program of a round, or have the one in reserve go on, with all as `Start` says."""

    round: int
    standby: bool = False
    other_port: bool = False


@dataclass(frozen=True, slots=True)
class Terminate:
    """Send SIGTERM to the program, and after `grace_seconds` SIGKILL; with None only SIGTERM.

    With `at_once` a program that loses nothing by it gets SIGKILL alone.
    """

    grace_seconds: float | None
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Greet:
    """Find the leader, and say hello to it."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class Leave:
    """Exit. `termination` is the message to leave; None keeps what the program has left."""

    exit_code: int
    termination: str | None = None


Action = Tell | Spawn | Terminate | Greet | Leave


@dataclass(slots=True)
class MemberMachine:
    """The launcher of one seat."""

    job: str
    seat: int
    attempt: int
    born: float
    state: State = State.IDLE
    round: int = -1
    """The newest round that it has taken part in."""
    connected: bool = False
    leaving: bool = False
    """Whether this replica is to go."""
    _released: bool = False
    """Whether the gang is done, and the program ends in its own time."""
    _outcome: Outcome | None = None
    """How the program of the newest round ended by itself."""
    _wait_seconds: float = 0.0
    """How long the next round has to wait for one of a leader that was lost in silence."""
    _verdict: Leave | None = field(default=None)

    def begin(self) -> list[Action]:
        """Return what a new launcher does."""
        return [Greet(self._hello())]

    def linked(self) -> list[Action]:
        """The leader has been greeted."""
        self.connected = True
        return [Tell(Leaving())] if self.leaving else []

    def unlinked(self, *, silent: bool) -> list[Action]:
        """The leader is lost; `silent`: nothing came for a lease, and it may not have noticed."""
        self.connected = False
        if self.state is State.OVER or self._released:
            return []
        # Kept until a round begins: the leader that was told of it may be lost too, and its successor knows nothing.
        self._wait_seconds = SURE_SECONDS if silent else self._wait_seconds
        if self.state is State.IDLE:
            return [Greet(self._hello())]
        # Also one that had more time: the others count on this within a lease.
        self.state = State.STOPPING
        return [Terminate(STOP_GRACE_SECONDS, at_once=True)]

    def heard(self, message: Message) -> list[Action]:
        """Return what a message of the leader leads to."""
        match message:
            case Start(round=number) as start if self.state is State.IDLE and number > self.round and not self.leaving:
                self.round, self.state, self._outcome, self._wait_seconds = number, State.RUNNING, None, 0.0
                return [Spawn(number, start.standby, start.other_port)]
            case Stop(round=number) as stop if self.state is State.RUNNING and number == self.round:
                self.state = State.STOPPING
                return [Terminate(stop.grace_seconds, stop.at_once)]
            case Done():
                return self._done()
            case GiveUp(exit_code=code, termination=text):
                return self._end(Leave(code, text))
            case Refused():
                return self._end(Leave(REPLACED))
        return []

    def ended(
        self, number: int, outcome: Outcome, report: ProgressReport | None = None, standby: int | None = None
    ) -> list[Action]:
        """The program of round `number` is gone, with all that it has started; one waits for round `standby`."""
        if number != self.round or self.state in {State.IDLE, State.OVER}:
            return []
        stopped, self.state = self.state is State.STOPPING, State.IDLE
        if self._verdict is not None:
            return self._over(self._verdict)
        if self.leaving or self._released:
            return [Tell(Ended(round=number, outcome=outcome, report=report)), *self._over(Leave(outcome.exit_code))]
        if not stopped:
            self._outcome = outcome
        if not self.connected:
            return [Greet(self._hello())]
        if stopped:
            return [Tell(Stopped(round=number, standby=standby))]
        return [Tell(Ended(round=number, outcome=outcome, report=report, standby=standby))]

    def terminated(self) -> list[Action]:
        """This replica is told to go (SIGTERM): its program may save, and ends before the launcher."""
        if self.leaving or self.state is State.OVER:
            return []
        self.leaving = True
        if self.state is State.IDLE:
            return [Tell(Leaving()), *self._over(Leave(self._outcome.exit_code if self._outcome else TERMINATED))]
        return [Tell(Leaving()), Terminate(None)]

    def _done(self) -> list[Action]:
        if self.state is State.IDLE:
            return self._over(Leave(0))
        self._released = True
        return []

    def _end(self, verdict: Leave) -> list[Action]:
        """Exit when no program runs."""
        if self.state is State.IDLE:
            return self._over(verdict)
        if self.state is State.OVER:
            return []
        self._verdict = verdict
        if self.state is State.STOPPING:
            return []
        self.state = State.STOPPING
        return [Terminate(STOP_GRACE_SECONDS, at_once=True)]

    def _over(self, leave: Leave) -> list[Action]:
        self.state = State.OVER
        return [leave]

    def _hello(self) -> Hello:
        return Hello(
            job=self.job,
            seat=self.seat,
            attempt=self.attempt,
            born=self.born,
            highest_round=self.round,
            wait_seconds=self._wait_seconds,
        )
