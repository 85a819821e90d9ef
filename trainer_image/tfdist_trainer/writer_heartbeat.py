"""Heartbeat of the job that writes checkpoints into a directory: a file in which its chief increments a counter.

    <directory>/writer-<uid>.heartbeat

Another job that is to write into the same directory reads it: while the counter changes, that job is running. The
reader compares two contents and no times, because the clocks of two nodes differ. A completed training removes the
file; after a kill it stays, and does not change any more.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

PERIOD_SECONDS: Final = 5.0
POLL_SECONDS: Final = 1.0
STALE_POLLS: Final = 20
"""Polls without a change after which the writer counts as ended: four periods, because shared storage is slow."""
WAIT_POLLS: Final = 90
"""Polls after which the reader gives up: a deleted pod may save for its grace period, and that is no conflict."""

_PREFIX: Final = "writer-"
_SUFFIX: Final = ".heartbeat"


class WriterHeartbeat:
    """The heartbeat of this process in one directory."""

    def __init__(self, directory: Path, job: str) -> None:
        self._path = directory / f"{_PREFIX}{job}{_SUFFIX}"
        self._count = 0
        self._stopped = threading.Event()

    def start(self) -> None:
        """Create the file and start the thread that increments the counter.

        Raises:
            OSError: the directory cannot be written.
        """
        self._path.write_text("0", encoding="ascii")
        threading.Thread(target=self._run, name="writer-heartbeat", daemon=True).start()

    def beat(self) -> None:
        """Increment the counter.

        Raises:
            FileNotFoundError: another writer has removed the file, because the directory is its own now.
        """
        self._count += 1
        with self._path.open("r+", encoding="ascii") as file:
            file.write(str(self._count))

    def stop(self) -> None:
        """Stop the thread and remove the file: this job writes no more."""
        self._stopped.set()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _run(self) -> None:
        while not self._stopped.wait(PERIOD_SECONDS):
            try:
                self.beat()
            except FileNotFoundError:
                return
            except OSError:
                continue  # the storage fails for a moment; a failure that lasts is reported by the next checkpoint


def has_ended(directory: Path, job: str, pause: Callable[[float], object] = time.sleep) -> bool:
    """Wait for the end of the job with this UID; return False if it still runs after `WAIT_POLLS` polls."""
    last, unchanged = _read(directory, job), 0
    for _ in range(WAIT_POLLS):
        if last is None or unchanged >= STALE_POLLS:
            return True
        pause(POLL_SECONDS)
        current = _read(directory, job)
        last, unchanged = current, unchanged + 1 if current == last else 0
    return last is None


def remove_others(directory: Path, job: str) -> None:
    """Remove the heartbeats of all jobs but this one."""
    for path in directory.glob(f"{_PREFIX}*{_SUFFIX}"):
        if path.name != f"{_PREFIX}{job}{_SUFFIX}":
            path.unlink(missing_ok=True)


def _read(directory: Path, job: str) -> str | None:
    """Return the content of a job's heartbeat; None if there is none."""
    # Listed, not composed: the UID is from a file on shared storage, and could name a path elsewhere.
    for path in directory.glob(f"{_PREFIX}*{_SUFFIX}"):
        if path.name == f"{_PREFIX}{job}{_SUFFIX}":
            with contextlib.suppress(FileNotFoundError):
                return path.read_text(encoding="ascii", errors="replace")
    return None
