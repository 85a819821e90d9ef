"""`tfdist shell JOB [ROLE-INDEX] [-- COMMAND]`: a shell or a command in the container of a replica."""

import contextlib
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Annotated, Final

from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions, attach_job
from tfdist.cli.options import JobName, replica_argument
from tfdist.client.exec import SHELL, Streams, run
from tfdist.client.replica_pods import running_pod

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
_OF_SIGNAL: Final = 128


@command
def shell(
    connection: ClusterOptions,
    name: JobName,
    replica: Annotated[
        str | None, replica_argument("Such as worker-1; default: the replica that leads training.")
    ] = None,
    *,
    after_dashes: list[str],
) -> int:
    """Open a shell, or run the command after `--`, in the container of a replica.

    Without a terminal the command reads standard input and its output is copied, so it can be part of a pipe.

    Exits with the exit code of the command, or 2 if a request fails or the replica is not running.
    """
    client = connection.client()
    job = attach_job(client, name).job
    pod = running_pod(client.api, job, replica)
    output, errors = _writer(sys.stdout.fileno()), _writer(sys.stderr.fileno())
    sys.stdout.flush()
    if not _is_interactive():
        return run(client.api, pod, after_dashes or SHELL, Streams(_stdin(), output, errors))
    with _raw_terminal():
        return run(client.api, pod, after_dashes or SHELL, Streams(_stdin(), output, errors, _size))


def _writer(descriptor: int) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[os.write(descriptor, remaining) :]

    return write


def _is_interactive() -> bool:
    """Return whether input and output are a terminal."""
    descriptor = _stdin()
    return descriptor is not None and os.isatty(descriptor) and sys.stdout.isatty()


def _stdin() -> int | None:
    """Return the file descriptor of the standard input; None if it is closed."""
    try:
        return sys.stdin.fileno()
    except (AttributeError, ValueError, OSError):
        return None


def _size() -> tuple[int, int]:
    """Return columns and lines."""
    columns, lines = shutil.get_terminal_size()
    return columns, lines


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Have the terminal in raw mode during the block, and restore it at its end, also after SIGTERM and SIGHUP."""
    descriptor = sys.stdin.fileno()
    settings = termios.tcgetattr(descriptor)
    handlers = {number: signal.signal(number, _end) for number in _SIGNALS}
    try:
        tty.setraw(descriptor, termios.TCSADRAIN)  # keeps what was typed already
        yield
    finally:
        with contextlib.suppress(termios.error):  # the terminal is closed
            termios.tcsetattr(descriptor, termios.TCSADRAIN, settings)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(_OF_SIGNAL + number)
