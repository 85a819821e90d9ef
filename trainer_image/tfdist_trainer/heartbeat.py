"""Signs of life between a program and its launcher: a file in memory that both have mapped.

The program writes its report there and a thread of it counts up; the launcher reads both without asking, so a program
that hangs, or is stopped, cannot keep it waiting. There is one writer and no lock: the writer makes the sequence
number odd while it writes, and a reader that sees it odd, or changed, looks again.

Where its threads are, a program of Python says on a signal, from C, whatever they do (`faulthandler`).
"""

import contextlib
import faulthandler
import mmap
import os
import signal
import struct
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pydantic

from tfdist.contract_reports import ProgressReport

HEARTBEAT_ENV: Final = "TFDIST_HEARTBEAT"
"""Environment variable with the file's path; set by the launcher."""

STACKS_SUFFIX: Final = ".stacks"
STACKS_SIGNAL: Final = signal.SIGUSR2
SIZE: Final = 1 << 16
BEAT_SECONDS: Final = 0.5

_HEAD: Final = struct.Struct("<QQQQQQ")
"""Beats, whether stacks can be had, sequence, length, whether it loses nothing, whether it waits in reserve."""
_BODY: Final = 64


class Heart:
    """The program's side."""

    def __init__(self, path: Path) -> None:
        """Map `path` and begin to beat.

        Raises:
            OSError: it cannot be opened.
        """
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SIZE)
        self._beats = self._sequence = 0
        self._stacks = path.with_name(path.name + STACKS_SUFFIX).open("a", encoding="utf-8")
        faulthandler.register(STACKS_SIGNAL, file=self._stacks, all_threads=True)
        self._put(8, 1)
        # The thread must take no signal that is meant for another: a notice to stop would be lost in it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def lose_nothing(self) -> None:
        """Say that SIGKILL costs no more than what was done since the last checkpoint: nothing is left half written."""
        self._put(32, 1)

    def be_ready(self) -> None:
        """Say that this program in reserve can begin its round."""
        self._put(40, 1)

    def tell(self, report: ProgressReport) -> None:
        """Make `report` the one that the launcher sees; only one thread calls this."""
        body = report.to_json().encode()
        if len(body) > SIZE - _BODY:
            body = report.model_copy(update={"metrics": {}}).to_json().encode()
        self._put(16, self._sequence + 1)
        self._map[_BODY : _BODY + len(body)] = body
        self._put(24, len(body))
        self._sequence += 2
        self._put(16, self._sequence)

    def _beat(self) -> None:
        while True:
            self._beats += 1
            self._put(0, self._beats)
            time.sleep(BEAT_SECONDS)

    def _put(self, offset: int, value: int) -> None:
        struct.pack_into("<Q", self._map, offset, value)


_hearts: list[Heart] = []


def attach(environ: Mapping[str, str]) -> Heart | None:
    """Return this process' heart, made when a launcher wants one; None without a launcher."""
    path = environ.get(HEARTBEAT_ENV)
    if not _hearts and path:
        with contextlib.suppress(OSError):
            _hearts.append(Heart(Path(path)))
    return _hearts[0] if _hearts else None


class Pulse:
    """The launcher's side: the file of one program."""

    def __init__(self, path: Path) -> None:
        """Make the file `path`."""
        self.path = path
        self._stacks = path.with_name(path.name + STACKS_SUFFIX)
        path.write_bytes(bytes(SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SIZE)
        self._last: tuple[int, ProgressReport | None] = 0, None

    @property
    def beats(self) -> int:
        """How often the program has given a sign of life; 0 where it never does."""
        return int(_HEAD.unpack_from(self._map)[0])

    @property
    def can_tell_stacks(self) -> bool:
        """Whether the program says on `STACKS_SIGNAL` where its threads are; another would die of it."""
        return bool(_HEAD.unpack_from(self._map)[1])

    @property
    def loses_nothing(self) -> bool:
        """Whether the program can be killed at any moment without harm; none has said so but the trainer."""
        return bool(_HEAD.unpack_from(self._map)[4])

    @property
    def is_ready(self) -> bool:
        """Whether the program waits in reserve, with all made ready."""
        return bool(_HEAD.unpack_from(self._map)[5])

    def report(self) -> ProgressReport | None:
        """Return what the program has told last, or None."""
        for _ in range(3):
            _, _, sequence, length, _, _ = _HEAD.unpack_from(self._map)
            if sequence == self._last[0]:
                break
            body = bytes(self._map[_BODY : _BODY + length])
            if sequence % 2 == 0 and _HEAD.unpack_from(self._map)[2] == sequence:
                with contextlib.suppress(pydantic.ValidationError):
                    self._last = sequence, ProgressReport.model_validate_json(body)
                break
        return self._last[1]

    def stacks(self) -> str:
        """Return what the program has said of its threads, "" as long as it has not."""
        with contextlib.suppress(OSError):
            return self._stacks.read_text(encoding="utf-8", errors="replace")
        return ""

    def clear_stacks(self) -> None:
        """Forget what has been said of the threads."""
        with contextlib.suppress(OSError):
            os.truncate(self._stacks, 0)

    def close(self) -> None:
        """Remove the files."""
        self._map.close()
        for path in (self.path, self._stacks):
            path.unlink(missing_ok=True)
