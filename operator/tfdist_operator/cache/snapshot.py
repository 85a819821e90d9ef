"""Compares a cache with a consistent list of its resource, metadata only; missing objects are read in full.

The API server answers a list without a resource version by a quorum read, so it holds all writes before the request. A
cache that agrees with it is not stale, whatever its watch has delivered.
"""

import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tfdist_operator.cache.informer import Watched
from tfdist_operator.kube.client import METADATA_LIST, Client, Json
from tfdist_operator.kube.keys import ALL_NAMESPACES
from tfdist_operator.kube.pages import items, well_formed
from tfdist_operator.kube.slow_start import slow_start

log = logging.getLogger(__name__)

_PAGE: Final = "500"


class Cache(Protocol):
    """The cache of one watched resource, as it is compared with the API server."""

    def versions(self, namespace: str = ALL_NAMESPACES) -> Mapping[str, int]:
        """Return the resource version of every cached object of a namespace, or of all, by UID."""

    def upsert(self, raw: Mapping[str, Any]) -> object:
        """Store an object from a response, unless it is stale."""

    def replace(self, uids: AbstractSet[str], version: int, namespace: str = ALL_NAMESPACES) -> None:
        """Remove the objects that a list of `namespace` at `version` lacks, unless they were created since."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One object of a list."""

    namespace: str
    name: str
    uid: str
    version: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All objects of a kind at one version."""

    version: int
    objects: tuple[Listed, ...]

    def missing(self, versions: Mapping[str, int]) -> list[Listed]:
        """Return the objects that the cache lacks, or has in an older version."""
        return [item for item in self.objects if versions.get(item.uid, -1) < item.version]

    def ghosts(self, versions: Mapping[str, int]) -> list[str]:
        """Return the UIDs of cached objects that had been deleted when the list was made."""
        uids = {item.uid for item in self.objects}
        return [uid for uid, version in versions.items() if uid not in uids and version <= self.version]


async def snapshot(client: Client, watched: Watched) -> Snapshot:
    """List the metadata of a resource.

    Raises:
        ApiError: the server rejects the request, does not answer, or answers with something else than a list.
    """
    query = {"labelSelector": watched.selector, "limit": _PAGE}
    objects: list[Listed] = []
    while True:
        page = await client.request("GET", watched.path, resource=watched.plural, query=query, accept=METADATA_LIST)
        with well_formed():
            objects += [_listed_object(item["metadata"]) for item in items(page)]
            version, query["continue"] = int(page["metadata"]["resourceVersion"]), page["metadata"].get("continue", "")
        if not query["continue"]:
            return Snapshot(version, tuple(objects))


def _listed_object(meta: Json) -> Listed:
    return Listed(meta["namespace"], meta["name"], meta["uid"], int(meta["resourceVersion"]))


async def correct(client: Client, watched: Watched, cache: Cache, listed: Snapshot) -> int:
    """Correct `cache` by `listed`: remove deleted objects, and read missing ones; return the number of corrections.

    Raises:
        ApiError: the server rejects a request or does not answer.
    """
    versions = cache.versions(watched.namespace)
    missing, ghosts = listed.missing(versions), listed.ghosts(versions)
    cache.replace({item.uid for item in listed.objects}, listed.version, watched.namespace)

    async def read(item: Listed) -> None:
        await _read(client, watched, cache, item)

    await slow_start(missing, read)
    return len(missing) + len(ghosts)


async def _read(client: Client, watched: Watched, cache: Cache, wanted: Listed) -> None:
    """Read one object in full; a list of one needs no right that the watch does not need."""
    query = {"labelSelector": watched.selector, "fieldSelector": f"metadata.name={wanted.name}"}
    page = await client.request(
        "GET", watched.path_in(wanted.namespace), resource=watched.plural, query=query, accept=watched.accepts_list
    )
    for item in items(page):
        try:
            cache.upsert(item)
        except (KeyError, TypeError, ValueError) as error:
            fields = {"resource": watched.plural, "object": f"{wanted.namespace}/{wanted.name}", "error": repr(error)}
            log.warning("object has the controller's labels but not its format; ignored", extra=fields)
