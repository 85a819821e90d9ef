"""The messages of the launchers' protocol, one JSON object in each line, and the reader of the lines.

A connection begins with the handshake (`handshake.py`): `Challenge`, `Hello`, `Welcome`. Then a member sends
`Heartbeat`, `ProcessExited`, `ProcessStopped`, `Terminating` and `Stacks`, and the leader sends all others. Unknown
fields are ignored.
"""

import asyncio
from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter

from tfdist.contract_model import ContractModel
from tfdist.contract_reports import ProgressReport

PROTOCOL: Final = 3
"""Version of the protocol: launchers of different versions reject each other."""


class Hello(ContractModel):
    """The first message of a member: its identity. No training process of it runs."""

    kind: Literal["hello"] = "hello"
    job: str
    """The job's UID."""
    rank: int
    """Position among `LeaderSettings.members`."""
    attempt: int
    started_at: float
    """Start time of this launcher, in seconds since 1970: of two launchers of one rank the later one takes over."""
    highest_round: int
    """The highest round that this launcher has taken part in; -1 for none."""
    wait_seconds: float = 0.0
    """How long a former leader may need to detect that this member has disconnected."""
    protocol: int = PROTOCOL
    nonce: str = ""
    """Never used again."""
    proof: str = ""
    """HMAC that proves the possession of the attempt's token."""

    @property
    def precedence(self) -> tuple[int, float]:
        """The order of the launchers of one rank: the attempt, then the start time."""
        return self.attempt, self.started_at


class Challenge(ContractModel):
    """The first message of a leader: it requests a proof of the token."""

    kind: Literal["challenge"] = "challenge"
    protocol: int = PROTOCOL
    nonce: str
    """Never used again."""


class Welcome(ContractModel):
    """The leader accepts the member, and proves that it has the token too."""

    kind: Literal["welcome"] = "welcome"
    proof: str


class ExitResult(ContractModel):
    """How a training process exited."""

    exit_code: int
    """As in a shell: 128 plus the number of the signal that ended the process."""
    signal: int | None = None
    termination: str = ""
    """Its termination message."""
    out_of_memory: str = ""
    """Description of OOM kills in the container during its run; "" if there were none."""

    @property
    def ok(self) -> bool:
        """Whether the process succeeded."""
        return self.exit_code == 0


class ProcessExited(ContractModel):
    """The training process of a round has exited and was not stopped."""

    kind: Literal["exited"] = "exited"
    round: int
    outcome: ExitResult
    report: ProgressReport | None = None
    standby: int | None = None
    """The round that the standby process is ready for."""


class ProcessStopped(ContractModel):
    """The training process of a round was stopped."""

    kind: Literal["stopped"] = "stopped"
    round: int
    standby: int | None = None
    """As in `ProcessExited`."""


class Terminating(ContractModel):
    """The pod of this member is terminating. Its training process has received SIGTERM; its launcher exits after it."""

    kind: Literal["terminating"] = "terminating"


class Heartbeat(ContractModel):
    """State of the training process; sent every second, so that a lost connection is noticed."""

    kind: Literal["heartbeat"] = "heartbeat"
    alive: bool
    """Whether the process runs and, if it writes heartbeats, has written one recently."""
    report: ProgressReport | None = None


class Stacks(ContractModel):
    """Stacks of the threads of the training process."""

    kind: Literal["stacks"] = "stacks"
    round: int
    text: str


class StartRound(ContractModel):
    """Begin a round: start the training process."""

    kind: Literal["start"] = "start"
    round: int
    standby: bool = False
    """Whether every member has a standby process for this round, which shall continue."""
    other_port: bool = False
    """Whether TensorFlow's servers of this round listen `STANDBY_PORT_OFFSET` beyond the ports of `TF_CONFIG`."""


class StopRound(ContractModel):
    """End a round: stop the training process with SIGTERM, and after the grace period with SIGKILL."""

    kind: Literal["stop"] = "stop"
    round: int
    grace_seconds: float
    at_once: bool = False
    """Whether a kill-safe process receives SIGKILL immediately: the root cause is known without its exit code."""


class StacksRequest(ContractModel):
    """Send the stacks of the training process."""

    kind: Literal["stacks-request"] = "stacks-request"
    round: int


class Ping(ContractModel):
    """Sent every second, so that a lost leader is noticed."""

    kind: Literal["ping"] = "ping"


class GangSucceeded(ContractModel):
    """The gang has succeeded: wait for the training process, and exit with its code."""

    kind: Literal["gang-succeeded"] = "gang-succeeded"


class GangFailed(ContractModel):
    """The gang has failed, or this member shall leave its node: exit with this code and termination message."""

    kind: Literal["gang-failed"] = "gang-failed"
    exit_code: int
    termination: str


class LauncherRejected(ContractModel):
    """The leader rejects this launcher: another one has its rank, or the rank is not of this job."""

    kind: Literal["rejected"] = "rejected"
    reason: str


HandshakeMessage = Challenge | Hello | Welcome
MemberMessage = ProcessExited | ProcessStopped | Terminating | Heartbeat | Stacks
LeaderMessage = StartRound | StopRound | StacksRequest | Ping | GangSucceeded | GangFailed | LauncherRejected
Message = HandshakeMessage | MemberMessage | LeaderMessage

MAX_MESSAGE_BYTES: Final = 1 << 18
"""A longer line is not a valid message."""

_ANY: Final[TypeAdapter[Message]] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])


def encode(message: Message) -> bytes:
    """Return `message` as one line."""
    return message.to_json().encode() + b"\n"


def decode(line: bytes) -> Message:
    """Return the message of a line.

    Raises:
        ValueError: the line is not a valid message (pydantic's `ValidationError` is a `ValueError`).
    """
    return _ANY.validate_json(line)


_BLOCK: Final = 1 << 14


class LineReader:
    """The lines of a stream, of bounded length: a peer that is not authenticated must not exhaust the memory."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._buffer = bytearray()

    async def next(self, max_bytes: int) -> bytes:
        """Return the next line. It may be cancelled and called again.

        Raises:
            ValueError: the line has more than `max_bytes` bytes.
            EOFError: the connection is closed.
            OSError: the connection is broken.
        """
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > max_bytes:
                break
            block = await self._reader.read(_BLOCK)
            if not block:
                raise EOFError
            self._buffer += block
        if end < 0 or end > max_bytes:
            raise ValueError(f"a line of more than {max_bytes} bytes")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line
