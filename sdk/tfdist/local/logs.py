"""Follows the log files of replicas, line by line.

Replicas write directly to their files and not through a pipe to this process: a replica that saves its checkpoint
after the run has been killed would otherwise fail with EPIPE.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final

from tfdist.render.defaults import LOG_LEVEL, LOG_LEVEL_ENV

_CHUNK: Final = 1 << 16
_LONGEST_LINE: Final = 1 << 16

_TENSORFLOW_INFO: Final = re.compile(r"I0000 00:00:|WARNING: All log messages before absl::InitializeLog\(\) is called")
"""An INFO message of TensorFlow, which never initializes absl's log: its prefix has no date. Some ignore the level."""


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
            *complete, self._rest = (self._rest + chunk).split(b"\n")
            yield from map(_text, complete)
            if len(self._rest) > _LONGEST_LINE:
                yield _text(self._rest)
                self._rest = b""
        if last and self._rest:
            yield _text(self._rest)
            self._rest = b""


def shows_info(environment: Mapping[str, str]) -> bool:
    """Return whether a replica with this environment is to show INFO messages of TensorFlow."""
    return environment.get(LOG_LEVEL_ENV, LOG_LEVEL) == "0"


def without_info(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines without INFO messages of TensorFlow; the log file has them."""
    return (line for line in lines if not _TENSORFLOW_INFO.match(line))


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", errors="replace")
