"""What launchers tell each other: one JSON object a line, of the kinds below.

A connection begins with the member's `Hello`. After it members send `Beat`, `Ended`, `Stopped`, `Leaving` and
`Stacks`, the leader everything else. Fields that a launcher does not know are ignored.
"""

from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter

from tfdist.contract_model import ContractModel
from tfdist.contract_reports import ProgressReport


class Hello(ContractModel):
    """The first words of a member: who it is. Its program does not run."""

    kind: Literal["hello"] = "hello"
    job: str
    """The job's UID."""
    seat: int
    """Position among `LeaderSettings.members`."""
    attempt: int
    born: float
    """When this launcher was started, in seconds since 1970: of two for one seat the later is right."""
    highest_round: int
    """The highest round that this launcher has taken part in; -1 for none."""
    wait_seconds: float = 0.0
    """How long a former leader may still take to notice that this member has left it."""

    @property
    def rank(self) -> tuple[int, float]:
        """What orders the launchers of one seat: the attempt, then the time of start."""
        return self.attempt, self.born


class Outcome(ContractModel):
    """How a program ended."""

    exit_code: int
    """As a shell has it: 128 and the number of the signal that ended it."""
    signal: int | None = None
    termination: str = ""
    """The termination message that it has left."""

    @property
    def ok(self) -> bool:
        """Whether it ended with success."""
        return self.exit_code == 0


class Ended(ContractModel):
    """The program of a round has ended by itself."""

    kind: Literal["ended"] = "ended"
    round: int
    outcome: Outcome
    report: ProgressReport | None = None
    standby: int | None = None
    """The round for which a program waits in reserve, with all made ready."""


class Stopped(ContractModel):
    """The program of a round has been stopped."""

    kind: Literal["stopped"] = "stopped"
    round: int
    standby: int | None = None
    """As of `Ended`."""


class Leaving(ContractModel):
    """This replica is to go; its program has been told, and its launcher ends with it."""

    kind: Literal["leaving"] = "leaving"


class Beat(ContractModel):
    """How the program is; sent every second, so that silence tells of a lost connection."""

    kind: Literal["beat"] = "beat"
    alive: bool
    """Whether the program runs and, where it can show it, has given a sign of life lately."""
    report: ProgressReport | None = None


class Stacks(ContractModel):
    """Where the program's threads are."""

    kind: Literal["stacks"] = "stacks"
    round: int
    text: str


class Start(ContractModel):
    """Begin a round: start the program."""

    kind: Literal["start"] = "start"
    round: int
    standby: bool = False
    """Whether every member has one in reserve, which is to go on."""
    other_port: bool = False
    """Whether TensorFlow's servers of this round listen `STANDBY_PORT_OFFSET` beyond the ports of `TF_CONFIG`."""


class Stop(ContractModel):
    """End a round: stop the program, with SIGTERM and after the grace period with SIGKILL."""

    kind: Literal["stop"] = "stop"
    round: int
    grace_seconds: float
    at_once: bool = False
    """Whether nobody waits for what the program has to say: one that loses nothing by it is killed without notice."""


class WantStacks(ContractModel):
    """Say where the program's threads are."""

    kind: Literal["want-stacks"] = "want-stacks"
    round: int


class Ping(ContractModel):
    """The leader is there."""

    kind: Literal["ping"] = "ping"


class Done(ContractModel):
    """The gang has succeeded: exit as the program does."""

    kind: Literal["done"] = "done"


class GiveUp(ContractModel):
    """The gang has failed: exit with this code and termination message."""

    kind: Literal["give-up"] = "give-up"
    exit_code: int
    termination: str


class Refused(ContractModel):
    """Another launcher has this seat, or the seat is none of this job."""

    kind: Literal["refused"] = "refused"
    reason: str


Message = Hello | Ended | Stopped | Leaving | Beat | Stacks | Start | Stop | WantStacks | Ping | Done | GiveUp | Refused

LONGEST_LINE: Final = 1 << 18
"""Bytes of a message; a longer one is no message of ours."""

_ANY: Final[TypeAdapter[Message]] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])


def encode(message: Message) -> bytes:
    """Return `message` as one line."""
    return message.to_json().encode() + b"\n"


def decode(line: bytes) -> Message:
    """Return the message of a line.

    Raises:
        ValueError: it is none (pydantic's `ValidationError` is one).
    """
    return _ANY.validate_json(line)
