"""A work queue of keys, as client-go's: one worker at a time reconciles a key, different keys in parallel.

Keys are deduplicated: a hundred events of a job before its turn cost one reconcile. A key that is added during its own
reconcile is reconciled again afterwards. A failed reconcile is retried with exponential back-off. `add_after` sets a
timer, so that a deadline fires without any event; of several delays of a key the earliest counts. `begin` drops the
timer: each reconcile sets the timers that it needs again.

Keys are served in order of arrival, and a key that is added again goes to the end: a job that changes all the time
delays the others by one reconcile in each round.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from tfdist_operator.kube.backoff import Backoff
from tfdist_operator.metrics import QUEUE_LATENCY_SECONDS

K = TypeVar("K", bound=Hashable)

log = logging.getLogger(__name__)

RETRY: Final = Backoff(0.01, 60.0)


class WorkQueue(Generic[K]):
    """Dirty keys in order of arrival; `retry` delays a key that failed. Its methods are called in the event loop."""

    def __init__(self, retry: Backoff = RETRY) -> None:
        self._retry = retry
        # A queue wakes one worker for a key; a condition variable would wake all of them.
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._dirty: dict[K, float] = {}
        """By key: since when it is dirty."""
        self._running: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._dirty)

    def add(self, key: K) -> None:
        """Mark `key` dirty."""
        if key in self._dirty:
            return
        self._dirty[key] = time.monotonic()
        # A key in progress is not handed to a second worker: `done` queues it again, so that no change is lost.
        if key not in self._running:
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Mark `key` dirty after `seconds`, unless an earlier timer is set."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            # Of several delays the earliest counts: each reconcile sets the timers that it needs again.
            if timer.when() <= due:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(due, self._fire, key)

    def begin(self, key: K) -> None:
        """Drop the timer of a key whose reconcile is about to read everything, and sets the timers that it needs."""
        # A timer of an earlier plan, such as one for a pod that has started since, would cause a plan without effect.
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _fire(self, key: K) -> None:
        del self._timers[key]
        self.add(key)

    async def get(self) -> K:
        """Wait for a dirty key and return it; `done` ends its reconcile."""
        key = await self._ready.get()
        QUEUE_LATENCY_SECONDS.observe(time.monotonic() - self._dirty.pop(key))
        self._running.add(key)
        return key

    def done(self, key: K, *, failed: bool = False) -> None:
        """Finish the reconcile of `key`; after a failure it is retried with back-off."""
        self._running.discard(key)
        if key in self._dirty:
            self._ready.put_nowait(key)
        if not failed:
            self._failures.pop(key, None)
            return
        count = self._failures[key] = self._failures.get(key, 0) + 1
        self.add_after(key, self._retry.seconds(count))

    async def run_worker(self, reconcile: Callable[[K], Awaitable[bool]]) -> None:
        """Reconcile dirty keys until cancelled. `reconcile` returns whether it succeeded; an exception is a failure."""
        while True:
            key = await self.get()
            # Also if the worker is cancelled: a key whose reconcile was cut off must not count as done.
            has_failed = True
            try:
                has_failed = not await reconcile(key)
            except Exception:
                log.exception("reconcile failed with an unexpected error; retried", extra={"key": str(key)})
            finally:
                self.done(key, failed=has_failed)
