"""The member's side of the rendezvous: a state machine without clocks, sockets or processes.

Every input returns the actions to carry out. Its invariant: whenever it sends `Hello`, and whenever it has sent
`ProcessExited` or `ProcessStopped`, no training process of it runs. So after the loss of its leader it connects again
only when its process has exited, and it begins only rounds that are newer than every round before.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tfdist.contract_reports import ProgressReport
from tfdist_launch.messages import (
    ExitResult,
    GangFailed,
    GangSucceeded,
    Hello,
    LauncherRejected,
    Message,
    ProcessExited,
    ProcessStopped,
    StartRound,
    StopRound,
    Terminating,
)

STOP_GRACE_SECONDS: Final = 0.5
"""Between SIGTERM and SIGKILL for a process whose round is over: it cannot save anything without its peers."""

LEASE_SECONDS: Final = 10.0
"""A connection without messages for this time is lost. Both sides detect it, at most twice this time after it broke."""

FENCING_SECONDS: Final = LEASE_SECONDS + 4 * STOP_GRACE_SECONDS
"""This time after a lease has expired on one side, it has expired on the other side too, and its process has exited."""

SIGTERM_EXIT_CODE: Final = 143
"""Exit code of a launcher that receives SIGTERM while no training process of it runs."""

REPLACED_EXIT_CODE: Final = 75
"""Exit code of a launcher whose rank another launcher has taken."""


class MemberState(StrEnum):
    """The state of the training process; `OVER`: the launcher exits."""

    IDLE = "idle"
    RUNNING = "running"
    STOPPING = "stopping"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class SendToLeader:
    """Send a message to the leader, if one is connected."""

    message: Message


@dataclass(frozen=True, slots=True)
class StartProcess:
    """Start the training process of a round, or let the standby process continue; fields as in `StartRound`."""

    round: int
    standby: bool = False
    other_port: bool = False


@dataclass(frozen=True, slots=True)
class StopProcess:
    """Send SIGTERM to the training process, and after `grace_seconds` SIGKILL; with None only SIGTERM.

    With `at_once` a kill-safe process receives SIGKILL immediately.
    """

    grace_seconds: float | None
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class ConnectToLeader:
    """Connect to the leader and send `hello`."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class Exit:
    """Exit. `termination` is the termination message; None keeps the one of the training process."""

    exit_code: int
    termination: str | None = None


Action = SendToLeader | StartProcess | StopProcess | ConnectToLeader | Exit


@dataclass(slots=True)
class MemberStateMachine:
    """The launcher of one member."""

    job: str
    rank: int
    attempt: int
    started_at: float
    state: MemberState = MemberState.IDLE
    round: int = -1
    """The newest round that it has taken part in."""
    connected: bool = False
    terminating: bool = False
    """Whether this pod is terminating."""
    _released: bool = False
    """Whether the gang has succeeded: the training process exits by itself."""
    _result: ExitResult | None = None
    """Of the process of the newest round, if it was not stopped."""
    _wait_seconds: float = 0.0
    """How long the next round has to wait for the process of a leader whose lease has expired."""
    _exit: Exit | None = field(default=None)
    """The exit to take when the training process has exited."""

    def start(self) -> list[Action]:
        """Return the first actions of a new launcher."""
        return [ConnectToLeader(self._hello())]

    def connection_established(self) -> list[Action]:
        """The leader has accepted the connection."""
        self.connected = True
        return [SendToLeader(Terminating())] if self.terminating else []

    def connection_lost(self, *, lease_expired: bool) -> list[Action]:
        """The connection is lost; with `lease_expired` the leader may not have noticed it."""
        # First: an exit that is reported now must lead to a new connection.
        self.connected = False
        if self.state is MemberState.OVER or self._released:
            return []
        # Kept until a round begins: a leader that has got it may be lost too, and its successor does not have it.
        self._wait_seconds = FENCING_SECONDS if lease_expired else self._wait_seconds
        if self.state is MemberState.IDLE:
            return [ConnectToLeader(self._hello())]
        # Also for a process with a longer grace period: the others rely on its end within a lease.
        self.state = MemberState.STOPPING
        return [StopProcess(STOP_GRACE_SECONDS, at_once=True)]

    def handle_message(self, message: Message) -> list[Action]:
        """Handle a message of the leader."""
        match message:
            case StartRound(round=number) as start if self._can_start(number):
                self.round, self.state, self._result, self._wait_seconds = number, MemberState.RUNNING, None, 0.0
                return [StartProcess(number, start.standby, start.other_port)]
            case StopRound(round=number) as stop if self.state is MemberState.RUNNING and number == self.round:
                self.state = MemberState.STOPPING
                return [StopProcess(stop.grace_seconds, stop.at_once)]
            case GangSucceeded():
                return self._gang_succeeded()
            case GangFailed(exit_code=code, termination=text):
                return self._stop_and_exit(Exit(code, text))
            case LauncherRejected():
                return self._stop_and_exit(Exit(REPLACED_EXIT_CODE))
        return []

    def process_exited(
        self, number: int, result: ExitResult, report: ProgressReport | None = None, standby: int | None = None
    ) -> list[Action]:
        """The process of round `number` has exited with all its children; a standby process is ready for `standby`."""
        if number != self.round or self.state in {MemberState.IDLE, MemberState.OVER}:
            return []
        was_stopped, self.state = self.state is MemberState.STOPPING, MemberState.IDLE
        if self._exit is not None:
            return self._over(self._exit)
        # The process may have saved: the replica ends with its exit code.
        if self.terminating or self._released:
            message = ProcessExited(round=number, outcome=result, report=report)
            return [SendToLeader(message), *self._over(Exit(result.exit_code))]
        if not was_stopped:
            self._result = result
        # The leader that should hear of this exit is lost: `Hello` says the same, that no process runs.
        if not self.connected:
            return [ConnectToLeader(self._hello())]
        if was_stopped:
            return [SendToLeader(ProcessStopped(round=number, standby=standby))]
        return [SendToLeader(ProcessExited(round=number, outcome=result, report=report, standby=standby))]

    def termination_requested(self) -> list[Action]:
        """Handle SIGTERM: the training process may save a checkpoint, and exits before the launcher."""
        if self.terminating or self.state is MemberState.OVER:
            return []
        self.terminating = True
        if self.state is MemberState.IDLE:
            code = self._result.exit_code if self._result else SIGTERM_EXIT_CODE
            return [SendToLeader(Terminating()), *self._over(Exit(code))]
        return [SendToLeader(Terminating()), StopProcess(None)]

    def _can_start(self, number: int) -> bool:
        # A round that is not newer is a repeated or late message.
        return self.state is MemberState.IDLE and number > self.round and not self.terminating

    def _gang_succeeded(self) -> list[Action]:
        if self.state is MemberState.IDLE:
            return self._over(Exit(0))
        self._released = True
        return []

    def _stop_and_exit(self, exit_: Exit) -> list[Action]:
        """Exit when no training process runs."""
        if self.state is MemberState.IDLE:
            return self._over(exit_)
        if self.state is MemberState.OVER:
            return []
        # Taken when the process has exited: an exiting launcher would leave it to the kernel, in the middle of a write.
        self._exit = exit_
        # It is being stopped already.
        if self.state is MemberState.STOPPING:
            return []
        self.state = MemberState.STOPPING
        return [StopProcess(STOP_GRACE_SECONDS, at_once=True)]

    def _over(self, exit_: Exit) -> list[Action]:
        self.state = MemberState.OVER
        return [exit_]

    def _hello(self) -> Hello:
        return Hello(
            job=self.job,
            rank=self.rank,
            attempt=self.attempt,
            started_at=self.started_at,
            highest_round=self.round,
            wait_seconds=self._wait_seconds,
        )
