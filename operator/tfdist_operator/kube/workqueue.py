"""A work queue of keys, as client-go's: one worker at a time reconciles a key, different keys in parallel.

Keys are deduplicated: a hundred events of a job before its turn cost one reconcile. A key that is added during its own
reconcile is reconciled again afterwards. A failed reconcile is retried with exponential back-off. `add_after` sets a
timer, so that a deadline fires without any event; of several delays of a key the earliest counts.

Keys are served in order of arrival, and a key that is added again goes to the end: a job that changes all the time
delays the others by one reconcile in each round.
"""

import asyncio
import heapq
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from tfdist_operator.kube.backoff import Backoff
from tfdist_operator.metrics import QUEUE_LATENCY_SECONDS

K = TypeVar("K", bound=Hashable)

log = logging.getLogger(__name__)

RETRY: Final = Backoff(0.01, 60.0)


class WorkQueue(Generic[K]):
    """Dirty keys in order of arrival. `clock` is monotonic, in seconds; `retry` delays a key that failed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, retry: Backoff = RETRY) -> None:
        self._clock = clock
        self._retry = retry
        self._ready: deque[K] = deque()
        self._dirty: dict[K, float] = {}  # since when
        self._running: set[K] = set()
        self._due: dict[K, float] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._serial = 0
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._dirty)

    def add(self, key: K) -> None:
        """Mark `key` dirty."""
        if key in self._dirty:
            return
        self._dirty[key] = self._clock()
        if key not in self._running:
            self._ready.append(key)
            self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Mark `key` dirty after `seconds`, unless an earlier timer is set."""
        due = self._clock() + seconds
        if self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        self._serial += 1
        heapq.heappush(self._timers, (due, self._serial, key))
        self._wake.set()

    async def get(self) -> K:
        """Wait for a dirty key and return it; `done` ends its reconcile."""
        while True:
            wait = self._fire_timers()
            if self._ready:
                key = self._ready.popleft()
                QUEUE_LATENCY_SECONDS.observe(self._clock() - self._dirty.pop(key))
                self._running.add(key)
                return key
            self._wake.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def done(self, key: K, *, failed: bool = False) -> None:
        """Finish the reconcile of `key`; after a failure it is retried with back-off."""
        self._running.discard(key)
        if key in self._dirty:
            self._ready.append(key)
            self._wake.set()
        if not failed:
            self._failures.pop(key, None)
            return
        count = self._failures[key] = self._failures.get(key, 0) + 1
        self.add_after(key, self._retry.seconds(count))

    async def run_worker(self, reconcile: Callable[[K], Awaitable[bool]]) -> None:
        """Reconcile dirty keys until cancelled. `reconcile` returns whether it succeeded; an exception is a failure."""
        while True:
            key = await self.get()
            has_failed = True
            try:
                has_failed = not await reconcile(key)
            except Exception:
                log.exception("reconcile failed with an unexpected error; retried", extra={"key": str(key)})
            finally:
                self.done(key, failed=has_failed)

    def _fire_timers(self) -> float | None:
        """Make due keys dirty; return the seconds until the next timer, or None without one."""
        now = self._clock()
        while self._timers:
            due, _, key = self._timers[0]
            if self._due.get(key) != due:  # replaced by an earlier one
                heapq.heappop(self._timers)
                continue
            if due > now:
                return due - now
            heapq.heappop(self._timers)
            del self._due[key]
            self.add(key)
        return None
