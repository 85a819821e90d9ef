"""A bounded queue from many threads to one reader, which takes all queued items at once."""

import threading
import time
from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_ROOM: Final = 2**18
"""Maximum size of the queued items of each source. A source that exceeds it blocks."""
_PAUSE_SECONDS: Final = 0.1
"""Between two attempts of a source that waits."""
_STEP_SECONDS: Final = 0.5


class Source:
    """One thread that adds to a queue."""

    def __init__(self) -> None:
        # Each is written by one thread only, so that no lock is needed.
        self.added, self.taken = 0, 0


class EventQueue(Generic[T]):
    """Takes batches of lines from several sources, and other items; each source's lines stay in their order.

    It has no lock: with one, 64 threads whose lines arrive one by one wait for each other most of the time.
    """

    def __init__(self) -> None:
        self._items: deque[tuple[Source | None, list[T], int]] = deque()
        self._arrived = threading.Event()
        self._closed = threading.Event()

    def put(self, items: list[T], source: Source | None = None, size: int = 0) -> None:
        """Add lines of a source when it has room; or without a source, other items, at once."""
        while source is not None and source.added - source.taken > _ROOM:
            if self._closed.wait(_PAUSE_SECONDS):
                return
        if source is not None:
            source.added += size
        self._items.append((source, items, size))
        if not self._arrived.is_set():
            self._arrived.set()

    def take(self, seconds: float | None = None) -> list[list[T]]:
        """Return all queued items; none after a timeout in seconds.

        Lines of one source without another item between are together.
        """
        end = None if seconds is None else time.monotonic() + seconds
        # With a limit, so that Ctrl-C is noticed on every system.
        while not self._arrived.wait(_STEP_SECONDS):
            if end is not None and time.monotonic() >= end:
                return []
        self._arrived.clear()
        return self._merged()

    def is_empty(self) -> bool:
        """Return whether the queue is empty."""
        return not self._items

    def close(self) -> None:
        """Unblock sources that wait for room: nobody reads any more."""
        self._closed.set()

    def _merged(self) -> list[list[T]]:
        batches: list[list[T]] = []
        by_source: dict[Hashable, list[T]] = {}
        for _ in range(len(self._items)):
            source, items, size = self._items.popleft()
            if source is None:
                by_source.clear()
                batches.append(items)
                continue
            source.taken += size
            if source in by_source:
                by_source[source].extend(items)
            else:
                by_source[source] = items
                batches.append(items)
        return batches
