"""The failures of a replica, with the exit codes and reasons that the controller acts on.

Code that knows the cause raises a typed error. `classify` maps any exception, including TensorFlow's. A message
states the problem, its place, and the remedy.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from tfdist.contract import ExitCode
from tfdist.failure_text import GRAPH_TRACEBACK, PEER_ERRORS
from tfdist.url_credentials import without_credentials


class TrainerError(Exception):
    """A failure whose cause is known."""

    exit_code: ClassVar[ExitCode] = ExitCode.SOFTWARE
    reason: ClassVar[str] = "Bug"


class UsageError(TrainerError):
    """The command line or the environment is not valid for the trainer."""

    exit_code = ExitCode.USAGE
    reason = "Usage"


class ConfigurationError(TrainerError):
    """A field of the job is wrong; the message starts with the path of the field."""

    exit_code = ExitCode.CONFIGURATION
    reason = "Configuration"


class DeviceMissingError(TrainerError):
    """A GPU of the container is not usable here: the fault of the node, so that another attempt may succeed."""

    exit_code = ExitCode.DEVICE_MISSING
    reason = "DeviceMissing"


class DataMissingError(TrainerError):
    """An input file does not exist or cannot be opened."""

    exit_code = ExitCode.DATA_MISSING
    reason = "DataMissing"


class DataMalformedError(TrainerError):
    """An input file does not match the configuration."""

    exit_code = ExitCode.DATA_MALFORMED
    reason = "DataMalformed"


class ColumnAbsentError(DataMalformedError):
    """No record of an input file has a configured column.

    `onBadRecord: Skip` does not skip such a file: the configuration or the file is wrong as a whole.
    """


class ColumnAmbiguousError(ColumnAbsentError):
    """An input file has a configured column more than once, so it is unknown which one is meant."""


class NotFiniteError(TrainerError):
    """A loss or gradient is not finite; the same data and settings would fail again."""

    exit_code = ExitCode.DATA_MALFORMED
    reason = "NotFinite"


class CheckpointUnwritableError(TrainerError):
    """The checkpoint directory cannot be written, or a later attempt has claimed it."""

    exit_code = ExitCode.CHECKPOINT_UNWRITABLE
    reason = "CheckpointUnwritable"


class StorageError(TrainerError):
    """A checkpoint cannot be read, or the storage failed."""

    exit_code = ExitCode.STORAGE
    reason = "Storage"


class PeerLostError(TrainerError):
    """Another member of the gang has failed or did not connect."""

    exit_code = ExitCode.PEER_LOST
    reason = "PeerLost"


class FitFailedError(TrainerError):
    """A script has ended with 0 after a call of `fit` that failed: what it was asked for does not exist."""

    exit_code = ExitCode.SOFTWARE
    reason = "FitFailed"


class Preempted(TrainerError):  # noqa: N818  an outcome that the caller requested, not an error
    """SIGTERM arrived, the gang agreed on a step, and that step is saved."""

    exit_code = ExitCode.PREEMPTED
    reason = "Preempted"


DIFFERENT_COLLECTIVES: Final = re.compile(r"Collective instance -?\d+ expected type")
"""In the message of TensorFlow if two workers have reached different collectives."""
_DIFFERENT_SHAPES: Final = "Shape mismatch in the collective instance"
_SAME_CALLS: Final = (
    "the workers exchange different values: all of them must run the same steps and the same calls of fit, evaluate "
    "and predict, in the same order, on values of the same shapes"
)


@dataclass(frozen=True, slots=True)
class ClassifiedError:
    """The exit code, reason and message for an exception."""

    exit_code: ExitCode
    reason: str
    message: str


_PEER_WORDS: Final = re.compile(
    r"collective|connection reset|connection refused|connection closed|socket closed|coordination service|"
    r"incarnation|barrier|heartbeat|peer",
    re.IGNORECASE,
)
_PEER_CANDIDATES: Final = frozenset({"InternalError", "UnknownError", "FailedPreconditionError"})


def classify(error: BaseException) -> ClassifiedError:
    """Return the exit code, reason and one-line message for `error`, without credentials in URLs.

    TensorFlow's errors are recognized by class name, so that this does not import TensorFlow: those that a collective
    raises when a member fails (`tensorflow/python/framework/errors_impl.py`) mean a lost peer, and `DataLossError` a
    damaged file.
    """
    if isinstance(error, TrainerError):
        return ClassifiedError(error.exit_code, error.reason, without_credentials(one_line(cause_of(str(error)))))
    name, text = type(error).__name__, without_credentials(one_line(cause_of(str(error))))
    if isinstance(error, BaseExceptionGroup):
        text += f"; the first: {_first_of(error)}"
    message = f"{name}: {text}"
    if type(error).__module__.startswith("tensorflow"):
        # Before the classes of a lost peer: TensorFlow reports both with the same class.
        if DIFFERENT_COLLECTIVES.search(text) or _DIFFERENT_SHAPES in text:
            return ClassifiedError(ExitCode.SOFTWARE, TrainerError.reason, f"{name}: {_SAME_CALLS} ({text})")
        # Some classes mean a lost peer by their text only.
        if name in PEER_ERRORS or (name in _PEER_CANDIDATES and _PEER_WORDS.search(text)):
            return ClassifiedError(ExitCode.PEER_LOST, PeerLostError.reason, message)
        if name == "DataLossError":
            return ClassifiedError(ExitCode.DATA_MALFORMED, DataMalformedError.reason, message)
    return ClassifiedError(ExitCode.SOFTWARE, TrainerError.reason, message)


def _first_of(group: BaseExceptionGroup[BaseException]) -> str:
    """Return type and message of the first exception in a group that is not a group itself."""
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return f"{type(first).__name__}: {without_credentials(one_line(str(first)))}"


_RAISED: Final = re.compile(r"^    [\w.]+: ", re.MULTILINE)
"""Start of the exception after the frames of a traceback."""
_ARGUMENTS: Final = re.compile(r"\n *\n *Arguments received by .*", re.DOTALL)
_BOLD: Final = re.compile("\x1b\\[[0-9]*m")


def cause_of(text: str) -> str:
    """Return the cause in the message of a TensorFlow or Keras error, without graph traceback and node names.

    The message of an exception raised during tracing is its traceback (`in user code:`). Keras prints the cause in
    bold, followed by the values of all arguments.
    """
    if text.startswith("in user code:"):
        # The last frame has the exception behind it.
        match = _RAISED.search(text, max(0, text.rfind('\n    File "')))
        text = text[match.end() :] if match else text
    text = _BOLD.sub("", _ARGUMENTS.sub("", text))
    if not text.startswith("Graph execution error"):
        return text
    lines = text.splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith("  File ")]
    tail = lines[frames[-1] + 1 if frames else 1 :]
    message = [line for line in tail if not line.lstrip().startswith("[[") and not GRAPH_TRACEBACK.match(line)]
    return "\n".join(message).strip() or text


def one_line(text: str) -> str:
    """Return `text` with every run of white space replaced by one space."""
    return " ".join(text.split())
