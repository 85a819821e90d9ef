"""Formatting of the command's output: colour, counts, messages on standard error."""

import os
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

from tfdist.printable import printable_line

RED: Final = "\033[31m"
GREEN: Final = "\033[32m"
YELLOW: Final = "\033[33m"
RESET: Final = "\033[0m"


def coloured(text: str, stream: TextIO) -> str:
    """Return `text` in red if `stream` is a terminal with colour."""
    return f"{RED}{text}{RESET}" if has_colour(stream) else text


def has_colour(stream: TextIO) -> bool:
    """Return whether `stream` is a terminal that supports colour and NO_COLOR is not set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int | None:
    """Return the columns of a terminal; None for any other stream, in which lines have no limit."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def one_line(text: str) -> str:
    """Return `text` without line breaks."""
    return " ".join(text.split())


@contextmanager
def collected_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Collect the warnings of Python that the client gives in this context."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def show_warnings(caught: Iterable[warnings.WarningMessage]) -> None:
    """Write warnings as messages."""
    for each in caught:
        message(f"warning: {each.message}")


def message(text: Any) -> None:
    """Write a message for the user to standard error, separate from the result on standard output."""
    write_lines(str(text).split("\n"), sys.stderr)


def write_lines(lines: Iterable[str], stream: TextIO | None = None) -> None:
    """Write lines to a stream, by default standard output, without control characters other than colours."""
    target = stream or sys.stdout
    target.writelines(f"{printable_line(line)}\n" for line in lines)
    target.flush()
