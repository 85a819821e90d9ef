"""A queue of keys: what is dirty is looked at, each key by one worker at a time, different keys in parallel.

Values are never queued, only keys: a hundred events of a job before its turn cost one look. A key that becomes
dirty during its own look is looked at again afterwards. A look that fails is repeated with exponential delay, and
`add_after` makes a timer of its own, so that a deadline fires without any other event. Of several delays of a key
the earliest counts.

Keys are served in order of arrival, and one that is dirty again goes to the end: a job that changes all the time delays
the others by one look each round.
"""

import asyncio
import heapq
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from tfdist_operator.metrics import QUEUE_LATENCY_SECONDS

K = TypeVar("K", bound=Hashable)

FIRST_RETRY_SECONDS: Final = 0.01
LONGEST_RETRY_SECONDS: Final = 60.0


def _jitter() -> float:
    return random.uniform(0.5, 1)  # noqa: S311  keys that failed together are not repeated together


class KeyedQueue(Generic[K]):
    """Dirty keys in order of arrival. `clock` is monotonic, in seconds; `jitter` gives the part of a delay to wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, jitter: Callable[[], float] = _jitter) -> None:
        self._clock = clock
        self._jitter = jitter
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
        """Mark `key` dirty in `seconds`, unless it is to be sooner anyway."""
        due = self._clock() + seconds
        if self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        self._serial += 1
        heapq.heappush(self._timers, (due, self._serial, key))
        self._wake.set()

    async def get(self) -> K:
        """Wait for a dirty key and take it; `done` gives it back."""
        while True:
            wait = self._fire_timers()
            if self._ready:
                key = self._ready.popleft()
                QUEUE_LATENCY_SECONDS.observe(self._clock() - self._dirty.pop(key))
                self._running.add(key)
                return key
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), wait)
            except TimeoutError:
                continue

    def done(self, key: K, *, failed: bool = False) -> None:
        """End the look at `key`; after a failure it is repeated, each time later."""
        self._running.discard(key)
        if key in self._dirty:
            self._ready.append(key)
            self._wake.set()
        if not failed:
            self._failures.pop(key, None)
            return
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(FIRST_RETRY_SECONDS * 2 ** min(count - 1, 16), LONGEST_RETRY_SECONDS)
        self.add_after(key, delay * self._jitter())

    async def work(self, look: Callable[[K], Awaitable[bool]]) -> None:
        """Look at dirty keys until cancelled; `look` returns whether it succeeded."""
        while True:
            key = await self.get()
            failed = True
            try:
                failed = not await look(key)
            finally:
                self.done(key, failed=failed)

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
