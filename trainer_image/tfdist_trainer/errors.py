"""Every way a replica can fail, and the exit code and reason that the controller acts on.

Code raises the typed error where it knows the cause; `classify` maps any exception, TensorFlow's included,
in one place. A message says what was wrong, where, and what to do.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from tfdist.contract import ExitCode


class TrainerError(Exception):
    """A failure whose cause is known."""

    exit_code: ClassVar[ExitCode] = ExitCode.SOFTWARE
    reason: ClassVar[str] = "Bug"


class UsageError(TrainerError):
    """The command line or the environment is not what the trainer can be started with."""

    exit_code = ExitCode.USAGE
    reason = "Usage"


class ConfigurationError(TrainerError):
    """A field of the job has a wrong value; the message starts with the field's path."""

    exit_code = ExitCode.CONFIGURATION
    reason = "Configuration"


class DataMissingError(TrainerError):
    """An input file does not exist or cannot be opened."""

    exit_code = ExitCode.DATA_MISSING
    reason = "DataMissing"


class DataMalformedError(TrainerError):
    """An input file exists and does not hold what the configuration says."""

    exit_code = ExitCode.DATA_MALFORMED
    reason = "DataMalformed"


class NotFiniteError(TrainerError):
    """A loss or gradient is not a finite number; the same data and settings would end there again."""

    exit_code = ExitCode.DATA_MALFORMED
    reason = "NotFinite"


class CheckpointUnwritableError(TrainerError):
    """The checkpoint directory cannot be written, or belongs to a later attempt."""

    exit_code = ExitCode.CHECKPOINT_UNWRITABLE
    reason = "CheckpointUnwritable"


class StorageError(TrainerError):
    """A checkpoint that should be readable is not."""

    exit_code = ExitCode.STORAGE
    reason = "Storage"


class PeerLostError(TrainerError):
    """Another member of the gang is gone or never came."""

    exit_code = ExitCode.PEER_LOST
    reason = "PeerLost"


class StoppedOnNotice(TrainerError):  # noqa: N818  it is an outcome that the caller wanted, not an error
    """SIGTERM arrived, the gang agreed on a step, and that step is saved."""

    exit_code = ExitCode.STOPPED_ON_NOTICE
    reason = "StoppedOnNotice"


@dataclass(frozen=True, slots=True)
class Failure:
    """What the process says of an exception when it exits."""

    exit_code: ExitCode
    reason: str
    message: str


_PEER_ERRORS: Final = frozenset({"UnavailableError", "AbortedError", "DeadlineExceededError", "CancelledError"})

_PEER_WORDS: Final = re.compile(
    r"collective|connection (reset|refused|closed)|socket closed|coordination service|incarnation|barrier|"
    r"heartbeat|peer",
    re.IGNORECASE,
)
_PEER_CANDIDATES: Final = frozenset({"InternalError", "UnknownError", "FailedPreconditionError"})


def classify(error: BaseException) -> Failure:
    """Return the exit code, reason and one-line message for `error`.

    TensorFlow's errors are recognized by class name, so that classifying does not import TensorFlow: those
    that a collective raises when a member dies (`tensorflow/python/framework/errors_impl.py`) mean that a
    peer was lost, and `DataLossError` that a file is damaged.
    """
    if isinstance(error, TrainerError):
        return Failure(error.exit_code, error.reason, one_line(cause_of(str(error))))
    name, text = type(error).__name__, one_line(cause_of(str(error)))
    message = f"{name}: {text}"
    if type(error).__module__.startswith("tensorflow"):
        if name in _PEER_ERRORS or (name in _PEER_CANDIDATES and _PEER_WORDS.search(text)):
            return Failure(ExitCode.PEER_LOST, PeerLostError.reason, message)
        if name == "DataLossError":
            return Failure(ExitCode.DATA_MALFORMED, DataMalformedError.reason, message)
    return Failure(ExitCode.SOFTWARE, TrainerError.reason, message)


_RAISED: Final = re.compile(r"^    [\w.]+: ", re.MULTILINE)
"""Begins the exception behind the frames of a traceback."""
_ARGUMENTS: Final = re.compile(r"\n *\n *Arguments received by .*", re.DOTALL)
_BOLD: Final = re.compile("\x1b\\[[0-9]*m")


def cause_of(text: str) -> str:
    """Return what an error of TensorFlow or Keras says happened, without where the graph was built and for which node.

    An exception raised while a graph is built comes with its traceback as its message (`in user code:`). Keras marks
    the cause as bold, and puts the values of all arguments behind it.
    """
    if text.startswith("in user code:"):
        raised = _RAISED.search(text, max(0, text.rfind('\n    File "')))
        text = text[raised.end() :] if raised else text
    text = _BOLD.sub("", _ARGUMENTS.sub("", text))
    if not text.startswith("Graph execution error"):
        return text
    lines = text.splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith("  File ")]
    said = [line for line in lines[frames[-1] + 1 if frames else 1 :] if not line.lstrip().startswith("[[")]
    return "\n".join(said).strip() or text


def one_line(text: str) -> str:
    """Return `text` with every run of white space as one blank."""
    return " ".join(text.split())
