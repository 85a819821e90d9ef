"""Heartbeat between a training process and its launcher: a memory-mapped file that both share.

The training process writes its report into the file, and one of its threads increments a counter. The launcher reads
both without a request, so a process that hangs or is stopped cannot block it. There is one writer and no lock
(a seqlock): the sequence number is odd during a write, and a reader that finds it odd or changed reads again.

A Python process also dumps the stacks of its threads on a signal. `faulthandler` does this in C, so it works whatever
the threads are doing.
"""

import contextlib
import faulthandler
import mmap
import os
import signal
import struct
import sys
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
"""Beats, whether stacks can be dumped, sequence number, length of the report, kill safe, ready to start."""
_BODY: Final = 64


class HeartbeatWriter:
    """The side of the training process."""

    def __init__(self, path: Path) -> None:
        """Map `path` and start the thread that counts.

        Raises:
            OSError: the file cannot be opened.
        """
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SIZE)
        self._beats = self._sequence = 0
        self._stacks = path.with_name(path.name + STACKS_SUFFIX).open("a", encoding="utf-8")
        # In C, so it works while the main thread is blocked in TensorFlow.
        faulthandler.register(STACKS_SIGNAL, file=self._stacks, all_threads=True)
        self._put(8, 1)
        # The thread must not receive signals meant for another thread: SIGTERM would be lost in it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def mark_kill_safe(self) -> None:
        """Declare that SIGKILL is safe: it costs the work since the last checkpoint, and leaves no partial file."""
        self._put(32, 1)

    def mark_ready(self) -> None:
        """Declare that this standby process can start its round."""
        self._put(40, 1)

    def write(self, report: ProgressReport) -> None:
        """Replace the report that the launcher reads. Only one thread may call this."""
        body = report.to_json().encode()
        # The state matters more than many metrics.
        if len(body) > SIZE - _BODY:
            body = report.model_copy(update={"metrics": {}}).to_json().encode()
        # Odd: a reader that finds it reads again.
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


_writers: list[HeartbeatWriter] = []


def attach(environ: Mapping[str, str]) -> HeartbeatWriter | None:
    """Return the heartbeat writer of this process, created on the first call; None without a launcher.

    None, too, if the file cannot be used, which a line on standard error reports: training goes on without reports.
    """
    path = environ.get(HEARTBEAT_ENV)
    if not _writers and path:
        try:
            _writers.append(HeartbeatWriter(Path(path)))
        except (OSError, ValueError) as error:  # ValueError: the file is shorter than the launcher has made it
            print(
                f"tfdist: {path}: cannot be used ({error}), so this process has no heartbeat: its launcher gets no "
                "reports and does not notice that it hangs; keep the folder of the launcher until its end",
                file=sys.stderr,
                flush=True,
            )
    return _writers[0] if _writers else None


class HeartbeatReader:
    """The launcher's side: the file of one training process."""

    def __init__(self, path: Path) -> None:
        """Create the file `path`."""
        self.path = path
        self._stacks = path.with_name(path.name + STACKS_SUFFIX)
        path.write_bytes(bytes(SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SIZE)
        self._last: tuple[int, ProgressReport | None] = 0, None

    @property
    def beats(self) -> int:
        """Number of heartbeats so far; stays 0 for a process that writes none."""
        return int(_HEAD.unpack_from(self._map)[0])

    @property
    def can_dump_stacks(self) -> bool:
        """Whether the process dumps its stacks on `STACKS_SIGNAL`; without a handler the signal would kill it."""
        return bool(_HEAD.unpack_from(self._map)[1])

    @property
    def is_kill_safe(self) -> bool:
        """Whether SIGKILL is safe at any time; only the bundled trainer declares this."""
        return bool(_HEAD.unpack_from(self._map)[4])

    @property
    def is_ready(self) -> bool:
        """Whether this is a standby process that has finished its preparation."""
        return bool(_HEAD.unpack_from(self._map)[5])

    def report(self) -> ProgressReport | None:
        """Return the latest report, or None if there is none yet."""
        for _ in range(3):
            _, _, sequence, length, _, _ = _HEAD.unpack_from(self._map)
            # Unchanged since the last read: nothing to parse.
            if sequence == self._last[0]:
                break
            body = bytes(self._map[_BODY : _BODY + length])
            if sequence % 2 == 0 and _HEAD.unpack_from(self._map)[2] == sequence:
                with contextlib.suppress(pydantic.ValidationError):
                    self._last = sequence, ProgressReport.model_validate_json(body)
                break
        return self._last[1]

    def stacks(self) -> str:
        """Return the dumped stacks; "" until there are any."""
        with contextlib.suppress(OSError):
            return self._stacks.read_text(encoding="utf-8", errors="replace")
        return ""

    def clear_stacks(self) -> None:
        """Remove the dumped stacks."""
        with contextlib.suppress(OSError):
            os.truncate(self._stacks, 0)

    def close(self) -> None:
        """Remove the files."""
        self._map.close()
        for path in (self.path, self._stacks):
            path.unlink(missing_ok=True)
