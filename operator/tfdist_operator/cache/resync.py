"""Compares the caches with the API server: before this replica leads, after a relist, and every ten minutes.

Reconciling is level-triggered: watches only shorten the delay, and the next resync, which enqueues every job, replaces
a missed event. The watch of a new leader may be disconnected without an error; the leader reconciles only once its
caches hold all writes of the previous leader.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tfdist_operator.cache.informer import Watched
from tfdist_operator.cache.snapshot import Cache, correct, snapshot
from tfdist_operator.kube.client import Client
from tfdist_operator.kube.errors import ApiError
from tfdist_operator.metrics import CACHE_CORRECTIONS, RESYNCS

log = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 600.0
_JITTER: Final = 0.1
_SPREAD: Final = 0.5
"""Fraction of the interval over which the jobs of a resync are enqueued."""
_RETRIES: Final = 10
"""A failed resync is retried after the interval divided by this number."""
_BARRIER_RETRY_SECONDS: Final = 1.0
_LAG_STEPS: Final = 10
_LAG_STEP_SECONDS: Final = 0.1
"""A watch may lag behind the list; objects that it has not delivered after a second are read."""


def _no_op() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Compared:
    """A cache, the resource that it holds, and a function that reconnects its watch."""

    watched: Watched
    cache: Cache
    reconnect: Callable[[], None] = _no_op
    periodic: bool = False
    """Whether each resync compares it, as the caches of jobs, and not only the barrier before leading."""


class Resync:
    """Corrects caches that have missed events.

    Args:
        client: client of the API server.
        jobs: the caches of jobs, which every resync compares; one for each namespace, or one for all.
        others: the caches that are compared before leading, and by every resync if they are `periodic`.
        enqueue: enqueues every known job, spread over a number of seconds.
        interval_seconds: between two resyncs, ±10 %.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        client: Client,
        jobs: Sequence[Compared],
        others: Sequence[Compared],
        enqueue: Callable[[float], None],
        *,
        interval_seconds: float = INTERVAL_SECONDS,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._jobs = tuple(jobs)
        self._others = tuple(others)
        self._enqueue = enqueue
        self._interval_seconds = interval_seconds
        self._sleep = sleep
        self.waiting_for = ""
        """Plural of the resource that is being compared before this replica leads; "" if none is."""

    async def run(self, begin: Callable[[], None]) -> None:
        """Compare every cache, call `begin`, and resync until cancelled."""
        await self.catch_up()
        begin()
        wait = self._interval_seconds
        while True:
            await self._sleep(wait * random.uniform(1 - _JITTER, 1 + _JITTER))  # noqa: S311
            wait = self._interval_seconds if await self._resync() else self._interval_seconds / _RETRIES

    async def catch_up(self) -> None:
        """Return when every cache holds the objects that the API server had stored at the time of the call."""
        for compared in (*self._jobs, *self._others):
            self.waiting_for = compared.watched.plural
            while True:
                try:
                    await self._compare(compared)
                    break
                except ApiError as error:
                    fields = {"resource": compared.watched.plural, "error": str(error)}
                    log.warning("cache cannot be compared with the API server yet; repeated", extra=fields)
                    await self._sleep(_BARRIER_RETRY_SECONDS)
        self.waiting_for = ""

    async def compare_jobs(self) -> None:
        """Compare the caches of jobs once: read missing objects, and remove deleted ones.

        Raises:
            ApiError: the server rejects a request or does not answer.
        """
        for compared in self._jobs:
            await self._compare(compared)

    async def _resync(self) -> bool:
        """Compare the caches and enqueue every job; return whether the caches could be compared."""
        compared = True
        try:
            await self.compare_jobs()
            for other in self._others:
                if other.periodic:
                    await self._compare(other)
        except ApiError as error:
            log.warning("resync could not compare the caches; repeated", extra={"error": str(error)})
            compared = False
        self._enqueue(self._interval_seconds * _SPREAD)
        RESYNCS.inc()
        return compared

    async def _compare(self, compared: Compared) -> None:
        """Compare one cache with the API server, and correct differences that its watch does not remove in a second."""
        watched, cache = compared.watched, compared.cache
        listed = await snapshot(self._client, watched)
        for _ in range(_LAG_STEPS):
            versions = cache.versions(watched.namespace)
            if not listed.missing(versions) and not listed.ghosts(versions):
                return
            await self._sleep(_LAG_STEP_SECONDS)
        corrections = await correct(self._client, watched, cache, listed)
        if corrections:
            compared.reconnect()
            CACHE_CORRECTIONS.labels(resource=watched.plural).inc(corrections)
            fields = {"resource": watched.plural, "objects": corrections}
            log.warning("cache was behind the API server; corrected, and its watch is connected again", extra=fields)
