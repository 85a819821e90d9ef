"""The exit codes of the command `tfdist`, which otherwise passes on the exit code of a job, a script or a shell."""

from enum import IntEnum


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
