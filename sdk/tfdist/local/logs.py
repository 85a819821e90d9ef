"""What replicas write, as it comes: whole lines, from their log files.

The replicas write to the files themselves and not through this process, so that one that is still saving its
checkpoint when the run has been killed does not fail on a closed pipe.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

_CHUNK: Final = 1 << 16
_LONGEST_LINE: Final = 1 << 16


class Tail:
    """Follows the log of one replica."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("rb")
        self._rest = b""

    def lines(self, *, last: bool = False) -> Iterator[str]:
        """Yield the lines that have come since the last call; with `last` also one without an end.

        Of a line that was written over, as by a progress bar, the last state is yielded.
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

    def close(self) -> None:
        """Stop following."""
        self._file.close()


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", errors="replace")
