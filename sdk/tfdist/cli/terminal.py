"""The terminal while a process in a pod uses it: no echo, no line editing, and each key sent at once."""

import contextlib
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
_OF_SIGNAL: Final = 128


def is_interactive() -> bool:
    """Return whether input and output are a terminal."""
    descriptor = stdin()
    return descriptor is not None and os.isatty(descriptor) and sys.stdout.isatty()


def stdin() -> int | None:
    """Return the file descriptor of the standard input; None if it is closed."""
    try:
        return sys.stdin.fileno()
    except (AttributeError, ValueError, OSError):
        return None


def size() -> tuple[int, int]:
    """Return columns and lines."""
    columns, lines = shutil.get_terminal_size()
    return columns, lines


@contextlib.contextmanager
def raw() -> Iterator[None]:
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
