"""Errors that end a command with a message for the user, and the exit codes of commands."""

from enum import IntEnum
from typing import Final, NamedTuple

MISSING_PACKAGES: Final = "the command needs packages that are not installed: pip install tfdist-cli"
_PACKAGES: Final = frozenset({"kubernetes", "packaging", "pathspec", "rich", "typer", "urllib3", "yaml"})


def missing_package(error: Exception) -> str:
    """Return what to install if `error` is the failed import of a package of the command; otherwise ""."""
    package = str(error.name).partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return MISSING_PACKAGES if package in _PACKAGES else ""


class Position(NamedTuple):
    """Line and column in a file, counted from 1."""

    line: int
    column: int


class CommandError(Exception):
    """The command cannot continue; its message is printed without a traceback, and the exit code is 2."""


class DocumentError(CommandError):
    """A file cannot be read or contains no documents: file, position, and reason."""

    def __init__(self, source: str, message: str, position: Position | None = None) -> None:
        location = f"{source}:{position.line}:{position.column}" if position else source
        super().__init__(f"{location}: {message}")
        self.source, self.message, self.position = source, message, position


class CommandExitCode(IntEnum):
    """An exit code of a command."""

    OK = 0
    NEGATIVE = 1
    """The answer is no: a manifest is invalid, or a job has ended in another phase than the one waited for."""
    FAILED = 2
    """The command could not do it: wrong usage, an unreadable file, a rejected request."""
    BUG = 70
    TIMEOUT = 124
    """As `timeout(1)`, and as a job that exceeded a deadline."""
    INTERRUPTED = 130
    """By Ctrl-C, as shells report it; a job that was followed goes on."""
    CLOSED_PIPE = 141
