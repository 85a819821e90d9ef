"""Downloads several objects at a time, and reports the progress in the log."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Final

from tfdist_trainer import log
from tfdist_trainer.storage.object_urls import BucketObject

_THREADS: Final = 8
_LOG_SECONDS: Final = 5.0

Received = Callable[[int], None]


class _Stopped(Exception):  # noqa: N818  ends a thread
    """The download of another object has failed."""


class Transfer:
    """Downloads `objects` by `copy`, which calls its second argument with each number of received bytes."""

    def __init__(self, objects: Sequence[BucketObject], copy: Callable[[BucketObject, Received], None]) -> None:
        self._objects = objects
        self._copy = copy
        self._lock = threading.Lock()
        self._bytes = 0
        self._stop = threading.Event()

    def run(self) -> None:
        """Download all. The first error ends the others, and is raised."""
        start = time.monotonic()
        with ThreadPoolExecutor(min(_THREADS, len(self._objects)), thread_name_prefix="download") as pool:
            downloads = [pool.submit(self._copy, each, self._count_bytes) for each in self._objects]
            try:
                pending = set(downloads)
                while pending:
                    finished, pending = wait(pending, _LOG_SECONDS, FIRST_EXCEPTION)
                    for each in finished:
                        each.result()
                    if pending:
                        self._log("download", len(self._objects) - len(pending), start)
            finally:
                self._stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
        self._log("downloaded", len(self._objects), start)

    def _count_bytes(self, count: int) -> None:
        if self._stop.is_set():
            raise _Stopped
        with self._lock:
            self._bytes += count

    def _log(self, event: str, finished: int, start: float) -> None:
        seconds = time.monotonic() - start
        log.event(
            event,
            objects=finished,
            of=len(self._objects),
            mib=self._bytes / 2**20,
            ofMib=sum(each.size for each in self._objects) / 2**20,
            mibPerSecond=self._bytes / 2**20 / max(seconds, 1e-3),
        )
