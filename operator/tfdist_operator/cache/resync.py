"""Compares the caches with the API server: before this replica leads, after a relist, and every ten minutes.

Reconciling is level-triggered: watches only shorten the delay, and the next resync, which enqueues every job, replaces
a missed event. The watch of a new leader may be disconnected without an error; the leader reconciles only once its
caches hold all writes of the previous leader.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tfdist_operator.cache.informer import WatchedResource
from tfdist_operator.kube.client import METADATA_LIST, ApiClient
from tfdist_operator.kube.errors import ApiError
from tfdist_operator.kube.json_bodies import Json, expect_list, list_items
from tfdist_operator.kube.keys import ALL_NAMESPACES
from tfdist_operator.kube.slow_start import slow_start
from tfdist_operator.metrics import CACHE_CORRECTIONS, RESYNCS

log = logging.getLogger(__name__)

_PAGE: Final = "500"
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


class ComparableCache(Protocol):
    """The cache of one watched resource, as it is compared with the API server."""

    def versions(self, namespace: str = ALL_NAMESPACES) -> Mapping[str, int]:
        """Return the resource version of every cached object of a namespace, or of all, by UID."""

    def upsert(self, raw: Mapping[str, Any]) -> object:
        """Store an object from a response, unless it is stale."""

    def replace(self, uids: AbstractSet[str], version: int, namespace: str = ALL_NAMESPACES) -> None:
        """Remove the objects that a list of `namespace` at `version` lacks, unless they were created since."""


@dataclass(frozen=True, slots=True)
class ListedObject:
    """One object of a list."""

    namespace: str
    name: str
    uid: str
    version: int


@dataclass(frozen=True, slots=True)
class MetadataList:
    """All objects of a kind at one version."""

    version: int
    objects: tuple[ListedObject, ...]

    def missing_from(self, versions: Mapping[str, int]) -> list[ListedObject]:
        """Return the objects that the cache lacks, or has in an older version."""
        return [item for item in self.objects if versions.get(item.uid, -1) < item.version]

    def ghosts_in(self, versions: Mapping[str, int]) -> list[str]:
        """Return the UIDs of cached objects that had been deleted when the list was made."""
        uids = {item.uid for item in self.objects}
        return [uid for uid, version in versions.items() if uid not in uids and version <= self.version]


async def list_metadata(client: ApiClient, watched: WatchedResource) -> MetadataList:
    """List the metadata of a resource.

    Raises:
        ApiError: the server rejects the request, does not answer, or answers with something else than a list.
    """
    query = {"labelSelector": watched.selector, "limit": _PAGE}
    objects: list[ListedObject] = []
    while True:
        page = await client.request("GET", watched.path, resource=watched.plural, query=query, accept=METADATA_LIST)
        with expect_list():
            objects += [_listed_object(item["metadata"]) for item in list_items(page)]
            version, query["continue"] = int(page["metadata"]["resourceVersion"]), page["metadata"].get("continue", "")
        if not query["continue"]:
            return MetadataList(version, tuple(objects))


def _listed_object(meta: Json) -> ListedObject:
    return ListedObject(meta["namespace"], meta["name"], meta["uid"], int(meta["resourceVersion"]))


async def correct_cache(
    client: ApiClient, watched: WatchedResource, cache: ComparableCache, listed: MetadataList
) -> int:
    """Correct `cache` by `listed`: remove deleted objects, and read missing ones; return the number of corrections.

    Raises:
        ApiError: the server rejects a request or does not answer.
    """
    versions = cache.versions(watched.namespace)
    missing, ghosts = listed.missing_from(versions), listed.ghosts_in(versions)
    cache.replace({item.uid for item in listed.objects}, listed.version, watched.namespace)

    async def read(item: ListedObject) -> None:
        await _read(client, watched, cache, item)

    # A server that rejects the first read is not asked for the rest.
    await slow_start(missing, read)
    return len(missing) + len(ghosts)


async def _read(client: ApiClient, watched: WatchedResource, cache: ComparableCache, wanted: ListedObject) -> None:
    """Read one object in full; a list of one needs no right that the watch does not need."""
    query = {"labelSelector": watched.selector, "fieldSelector": f"metadata.name={wanted.name}"}
    page = await client.request(
        "GET", watched.path_in(wanted.namespace), resource=watched.plural, query=query, accept=watched.accepts_list
    )
    for item in list_items(page):
        try:
            cache.upsert(item)
        except (KeyError, TypeError, ValueError) as error:
            fields = {"resource": watched.plural, "object": f"{wanted.namespace}/{wanted.name}", "error": repr(error)}
            log.warning("object has the controller's labels but not its format; ignored", extra=fields)


def _do_nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class CacheComparison:
    """A cache, the resource that it holds, and a function that reconnects its watch."""

    watched: WatchedResource
    cache: ComparableCache
    reconnect: Callable[[], None] = _do_nothing
    periodic: bool = False
    """Whether each resync compares it, and not only the barrier before leading."""


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
        client: ApiClient,
        jobs: Sequence[CacheComparison],
        others: Sequence[CacheComparison],
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
        # The watch of a new leader may be disconnected without an error. It acts only once its caches hold all writes
        # of the former leader (ADR 21).
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
        # Also if the comparison has failed: reconciling is level-triggered, and replaces a missed event of what is
        # cached.
        self._enqueue(self._interval_seconds * _SPREAD)
        RESYNCS.inc()
        return compared

    async def _compare(self, compared: CacheComparison) -> None:
        """Compare one cache with the API server, and correct differences that its watch does not remove in a second."""
        watched, cache = compared.watched, compared.cache
        # Without a resource version the API server answers by a quorum read: a cache that agrees is not stale, whatever
        # its watch has delivered.
        listed = await list_metadata(self._client, watched)
        # A watch may lag behind the list by a moment. To wait until it has passed the version of the list would take up
        # to a minute without changes (ADR 21).
        for _ in range(_LAG_STEPS):
            versions = cache.versions(watched.namespace)
            if not listed.missing_from(versions) and not listed.ghosts_in(versions):
                return
            await self._sleep(_LAG_STEP_SECONDS)
        corrections = await correct_cache(self._client, watched, cache, listed)
        if corrections:
            # A watch that has not delivered them within a second is presumed dead.
            compared.reconnect()
            CACHE_CORRECTIONS.labels(resource=watched.plural).inc(corrections)
            fields = {"resource": watched.plural, "objects": corrections}
            log.warning("cache was behind the API server; corrected, and its watch is connected again", extra=fields)
