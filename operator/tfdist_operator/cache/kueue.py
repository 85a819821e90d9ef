"""Kueue on this cluster: whether it is installed, the Workloads of jobs, and its ResourceFlavors."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tfdist.render import names
from tfdist.render.workload import GROUP, PLURAL, VERSIONS
from tfdist_operator.cache.informer import Informer, Watched
from tfdist_operator.cache.kueue_cache import FlavorCache, WorkloadCache
from tfdist_operator.cache.object_cache import OnChange
from tfdist_operator.cache.optional_api import OptionalApi
from tfdist_operator.kube.client import Client
from tfdist_operator.kube.errors import Rejected
from tfdist_operator.kube.keys import ALL_NAMESPACES
from tfdist_operator.kube.queue_positions import QueuePositions

_FLAVORS: Final = "resourceflavors"


class Kueue:
    """The watch of Kueue's objects.

    Args:
        client: client of the API server.
        namespaces: those of the controller.
        on_job: is called with the key of the job of a changed Workload.
        on_change: is called when something has changed that concerns every job.
    """

    def __init__(
        self, client: Client, namespaces: Iterable[str], on_job: OnChange, on_change: Callable[[], None]
    ) -> None:
        self._client = client
        self._namespaces = tuple(namespaces)
        self.workloads = WorkloadCache(on_job)
        self.flavors = FlavorCache(on_change)
        self.positions = QueuePositions(client, lambda: self.version)
        self.api = OptionalApi(client, GROUP, served_version, self._informers, on_change)

    @property
    def version(self) -> str:
        """The served version of Kueue's API that is used; "" without Kueue."""
        return self.api.version

    def _informers(self, version: str) -> Sequence[Informer]:
        prefix = f"apis/{GROUP}/{version}"
        flavors = Watched.of(prefix, _FLAVORS, ALL_NAMESPACES)
        workloads = [Watched.of(prefix, PLURAL, namespace, names.POD_SELECTOR) for namespace in self._namespaces]
        return [
            Informer(self._client, flavors, self.flavors),
            *(Informer(self._client, watched, self.workloads) for watched in workloads),
        ]


async def served_version(client: Client) -> str:
    """Return the best version of Kueue's API that the API server serves; "" for none.

    Raises:
        Rejected: it serves only versions that the controller does not know: Kueue is there, and cannot be used.
        ApiError: the request failed.
    """
    group = await client.request("GET", f"/apis/{GROUP}", resource="discovery")
    versions = {str(item.get("version")) for item in group.get("versions") or ()}
    known = next((version for version in VERSIONS if version in versions), "")
    if versions and not known:
        text = f"{GROUP} has only {', '.join(sorted(versions))}, and TFDist knows {', '.join(VERSIONS)}; upgrade TFDist"
        raise Rejected(0, "UnknownVersion", text)
    return known
