"""How results reach the person or program that asked: lines of problems, counts in words, colour."""

import os
import sys
from typing import Any, Final, NamedTuple, TextIO

from tfdist.cli.documents import Document

_RED: Final = "\033[31m"
_PLAIN: Final = "\033[0m"


class Finding(NamedTuple):
    """Something to say about a field of a document."""

    file: str
    line: int
    column: int
    document: int
    path: str
    message: str

    def print(self, stream: TextIO) -> None:
        """Write it as one line that editors and grep understand."""
        path = coloured(f"{self.path}:", stream) + " " if self.path else ""
        print(f"{self.file}:{self.line}: {path}{one_line(self.message)}", file=stream)


def finding(document: Document, path: str, message: str) -> Finding:
    """Return what there is to say about the field `path`, with the place where it stands."""
    line, column = document.locate(path)
    return Finding(document.source, line, column, document.number, path, message)


def coloured(text: str, stream: TextIO) -> str:
    """Return `text` in red where `stream` is a terminal whose user wants colour (https://no-color.org)."""
    return f"{_RED}{text}{_PLAIN}" if colour_wanted(stream) else text


def colour_wanted(stream: TextIO) -> bool:
    """Return whether `stream` is a terminal whose user wants colour."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def one_line(text: str) -> str:
    """Return `text` without line breaks."""
    return " ".join(text.split())


def count(number: int, noun: str) -> str:
    """Return `1 document`, `2 documents`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def say(text: Any) -> None:
    """Tell the person at the terminal, apart from the result on standard output."""
    print(text, file=sys.stderr)
