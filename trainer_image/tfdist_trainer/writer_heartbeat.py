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
from typing import Final

from tfdist_trainer.errors import TrainerError
from tfdist_trainer.storage.folder import StorageFolder
from tfdist_trainer.storage.locations import Location, open_folder

PERIOD_SECONDS: Final = 5.0
POLL_SECONDS: Final = 1.0
STALE_POLLS: Final = 20
"""Polls without a change after which the writer counts as ended: four periods, because shared storage is slow."""
WAIT_POLLS: Final = 90
"""Polls after which the reader stops waiting: a deleted pod may save for its grace period, which is not a conflict."""

_PREFIX: Final = "writer-"
_SUFFIX: Final = ".heartbeat"


class WriterHeartbeat:
    """The heartbeat of this process in one directory."""

    def __init__(self, directory: Location, job: str) -> None:
        self._folder = open_folder(directory)
        self._name = _name(job)
        self._count = 0
        self._stopped = threading.Event()

    def start(self) -> None:
        """Create the file and start the thread that increments the counter; errors as of `StorageFolder`."""
        self._count = 0
        self._stopped = threading.Event()
        # By the caller, not the thread: the file exists before the claim names this job.
        self._folder.write_text(self._name, "0")
        threading.Thread(target=self._run, args=(self._stopped,), name="writer-heartbeat", daemon=True).start()

    def beat(self) -> None:
        """Increment the counter; errors as of `StorageFolder`.

        Raises:
            FileNotFoundError: another writer has removed the file, because it has claimed the directory.
        """
        self._count += 1
        if not self._folder.overwrite_text(self._name, str(self._count)):
            raise FileNotFoundError(self._folder.place(self._name))

    def stop(self) -> None:
        """Stop the thread and remove the file: this job writes no more."""
        self._stopped.set()
        with contextlib.suppress(TrainerError):
            self._folder.remove(self._name)

    def _run(self, stopped: threading.Event) -> None:
        while not stopped.wait(PERIOD_SECONDS):
            try:
                self.beat()
            except FileNotFoundError:
                return
            except TrainerError:
                continue  # the storage fails for a moment; a failure that lasts is reported by the next checkpoint


def has_ended(directory: Location, job: str, pause: Callable[[float], object] = time.sleep) -> bool:
    """Wait for the end of the job with this UID; return False if it still runs after `WAIT_POLLS` polls."""
    folder = open_folder(directory)
    last, unchanged = _read(folder, job), 0
    for _ in range(WAIT_POLLS):
        # Contents are compared, and no times: clocks of nodes and servers differ (ADR 31).
        if last is None or unchanged >= STALE_POLLS:
            return True
        pause(POLL_SECONDS)
        current = _read(folder, job)
        last, unchanged = current, unchanged + 1 if current == last else 0
    return last is None


def remove_others(folder: StorageFolder, job: str) -> None:
    """Remove the heartbeats of all jobs but this one."""
    for name in folder.names():
        if name.startswith(_PREFIX) and name.endswith(_SUFFIX) and name != _name(job):
            folder.remove(name)


def _name(job: str) -> str:
    return f"{_PREFIX}{job}{_SUFFIX}"


def _read(folder: StorageFolder, job: str) -> str | None:
    """Return the content of a job's heartbeat; None if there is none."""
    # Listed, not composed: the UID is from a file on shared storage, and could name a path elsewhere.
    return folder.read_text(_name(job)) if _name(job) in folder.names() else None
