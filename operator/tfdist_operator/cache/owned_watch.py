"""The watches of the objects that jobs own in addition to pods: metadata only, selected by the controller's labels."""

from collections.abc import Iterable

from tfdist.render import names
from tfdist.render.owned_kinds import OwnedKind
from tfdist_operator.cache.informer import Informer, Watched
from tfdist_operator.cache.optional_api import is_served
from tfdist_operator.cache.owned_cache import OwnedObjectCache
from tfdist_operator.cache.resync import Compared
from tfdist_operator.kube.client import Client


def watch_owned(
    client: Client, namespaces: Iterable[str], caches: Iterable[OwnedObjectCache]
) -> list[tuple[Informer, Compared]]:
    """Return, for every kind and namespace, the informer of its cache, and how the cache is compared."""
    watches = []
    for cache in caches:
        for namespace in namespaces:
            of_kind = cache.kind.path, cache.kind.plural, namespace, names.POD_SELECTOR
            watched = Watched.of(*of_kind, metadata_only=True)
            informer = Informer(client, watched, cache)
            watches.append((informer, Compared(watched, cache, informer.reconnect, periodic=True)))
    return watches


async def served_version(kind: OwnedKind, client: Client) -> str:
    """Return the version of a kind that the API server serves: the one that the controller writes, or ""."""
    return kind.api_version if await is_served(client, kind.path, kind.plural) else ""
