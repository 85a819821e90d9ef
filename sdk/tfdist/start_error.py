"""Commands that a container cannot execute, by the message of the container runtime.

The kubelet gives only a reason (`StartError` of containerd, `ContainerCannotRun` of Docker) and that message. Some of
these errors are of the node and temporary; a command that the image lacks is not.
"""

import json
import re
from dataclasses import dataclass
from typing import Final

START_ERRORS: Final = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons of a container whose process was never started; it has no log."""
_NO_FILE: Final = "no such file or directory"
_NOT_IN_PATH: Final = "executable file not found in $PATH"
_NO_PERMISSION: Final = "permission denied"
_BAD_FORMAT: Final = "exec format error"
_ERRORS: Final = "|".join(map(re.escape, (_NO_FILE, _NOT_IN_PATH, _NO_PERMISSION, _BAD_FORMAT)))
_EXEC: Final = re.compile(rf'exec: ("(?:[^"\\]|\\.)*+"): (?:(?!exec: ").)*?({_ERRORS})')
"""What Go's `exec.Error` and runc write: `exec: "NAME": [stat NAME: ]ERROR`."""
_REMEDIES: Final = {
    _NO_FILE: "correct the command, or add the file to the image or a volume",
    _NOT_IN_PATH: "correct the command, or add the program to the image",
    _NO_PERMISSION: "make the file executable, or name its interpreter first in the command",
    _BAD_FORMAT: "begin the script with #! and its interpreter, or use an image for the node's architecture",
}


@dataclass(frozen=True, slots=True)
class ExecError:
    """A command that cannot be executed: the error of the runtime without its prefixes, and the remedy."""

    text: str
    remedy: str


def exec_error(reason: str, message: str) -> ExecError | None:
    """Return the error of a container whose command cannot be executed; None for any other end.

    Args:
        reason: `reason` of the terminated container state.
        message: its message; a program's own termination message never counts.
    """
    match = _EXEC.search(message) if reason in START_ERRORS else None
    if match is None:
        return None
    container = re.match(r"init container [^:]+: ", message)
    return ExecError(f"{container[0] if container else ''}{match[0]}", _remedy(match[1], match[2]))


def _remedy(quoted: str, error: str) -> str:
    words = quoted[1:-1].split()
    if len(words) > 1:
        return f"command is a list, with each word an item of its own: {json.dumps(words)}"
    return _REMEDIES[error]
