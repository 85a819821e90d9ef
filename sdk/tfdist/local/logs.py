"""Follows the log files of replicas, line by line.

Replicas write directly to their files and not through a pipe to this process: a replica that saves its checkpoint
after the run has been killed would otherwise fail with EPIPE.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

_CHUNK: Final = 1 << 16
_LONGEST_LINE: Final = 1 << 16


class Tail:
    """Follows the log of one replica, as `tail -f` does."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("rb")
        self._rest = b""

    def lines(self, *, last: bool = False) -> Iterator[str]:
        """Yield the lines since the last call; with `last` also the last line if it has no line feed.

        Of a line that is overwritten by carriage returns, as a progress bar, only the last state is yielded.
        """
        while chunk := self._file.read(_CHUNK):
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            yield from map(_text, whole)
            if len(self._rest) > _LONGEST_LINE:
                yield _text(self._rest)
                self._rest = b""
        if last and self._rest:
            yield _text(self._rest)
            self._rest = b""


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", errors="replace")
