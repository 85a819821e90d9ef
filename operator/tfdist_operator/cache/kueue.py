"""Kueue on this cluster: whether it is installed, the Workloads of jobs, and its ResourceFlavors."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from tfdist.render import names
from tfdist.render.pod_placement import PodPlacement
from tfdist.scheduling.kueue import (
    FLAVORS,
    GROUP,
    PLURAL,
    VERSIONS,
    WorkloadSummary,
    flavor_placement,
    workload_summary,
)
from tfdist_operator.cache.informer import Informer, WatchedResource
from tfdist_operator.cache.optional_api import OptionalApi
from tfdist_operator.cache.resource_cache import OnChange, Raw, ResourceCache
from tfdist_operator.kube.client import ApiClient
from tfdist_operator.kube.errors import ApiError, RejectedError
from tfdist_operator.kube.json_bodies import list_items
from tfdist_operator.kube.keys import ALL_NAMESPACES, NamespacedName

log = logging.getLogger(__name__)
_PATH: Final = "/apis/visibility.kueue.x-k8s.io/{version}/namespaces/{namespace}/localqueues/{queue}/pendingworkloads"
_SECONDS: Final = 60.0
_WITHOUT_SECONDS: Final = 600.0
"""Delay of the next request after an error: an installation may not have the API."""
_LAST: Final = 100
"""The last position that is read: the status of a job further behind would be written often, with little use."""
Queue = tuple[str, str]
"""Namespace and name of a LocalQueue."""


class WorkloadCache(ResourceCache[WorkloadSummary]):
    """The Workloads of jobs; `on_change` is called with the key of the job."""

    def job_workload(self, key: NamespacedName, uid: str) -> WorkloadSummary | None:
        """Return the Workload of the job with this key and UID."""
        return self.get((key.namespace, names.workload(key.name, uid)))

    def _parse(self, raw: Raw) -> tuple[NamespacedName, WorkloadSummary]:
        meta = raw["metadata"]
        return NamespacedName(meta["namespace"], meta["labels"][names.JOB_LABEL]), workload_summary(raw)


class FlavorCache:
    """The ResourceFlavors, by name: an informer's handler, since a flavor belongs to no namespace and to no job.

    Args:
        on_change: called when a flavor has changed.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._flavors: dict[str, tuple[str, PodPlacement]] = {}
        """UID and placement by the name of the flavor."""

    def placements(self) -> Mapping[str, PodPlacement]:
        """Return what each flavor adds to pods."""
        return {name: placement for name, (_, placement) in self._flavors.items()}

    def on_update(self, raw: Mapping[str, Any]) -> None:
        """Store a flavor that is new or has changed."""
        meta = raw["metadata"]
        self._flavors[meta["name"]] = meta["uid"], flavor_placement(raw)
        self._on_change()

    def on_delete(self, raw: Mapping[str, Any]) -> None:
        """Remove a flavor."""
        self._flavors.pop(raw["metadata"]["name"], None)

    def replace(self, uids: AbstractSet[str], version: int, namespace: str = ALL_NAMESPACES) -> None:  # noqa: ARG002
        """Remove the flavors that a list lacks."""
        self._flavors = {name: entry for name, entry in self._flavors.items() if entry[0] in uids}

    def on_bookmark(self, version: int, namespace: str = ALL_NAMESPACES) -> None:
        """Ignore the watermark: only the watch writes here."""


class QueuePositions:
    """Positions by Workload.

    Args:
        client: client of the API server.
        version: returns the served version of Kueue's API.
        clock: monotonic, in seconds.
    """

    def __init__(
        self, client: ApiClient, version: Callable[[], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._version = version
        self._clock = clock
        self._known: dict[Queue, tuple[float, Mapping[str, int]]] = {}
        """The time at which the entry expires, and the positions by Workload."""

    async def position(self, queue: Queue, workload: str) -> int | None:
        """Return the position of a Workload in its LocalQueue, from 1; None if it is not known."""
        now = self._clock()
        self._known = {key: entry for key, entry in self._known.items() if entry[0] > now}
        expires_at, entry = self._known.get(queue, (0.0, {}))
        # Kueue computes positions for each request, and no watch reports them: one request a minute for each queue, and
        # one more for a job that is new in it.
        if workload not in entry and len(entry) < _LAST and expires_at <= now + _SECONDS:
            self._known[queue] = await self._read(queue)
        return self._known[queue][1].get(workload)

    async def _read(self, queue: Queue) -> tuple[float, Mapping[str, int]]:
        path = _PATH.format(version=self._version(), namespace=queue[0], queue=queue[1])
        try:
            page = await self._client.request("GET", path, resource="pendingworkloads", query={"limit": str(_LAST)})
            positions = {item["metadata"]["name"]: int(item["positionInLocalQueue"]) + 1 for item in list_items(page)}
        except (ApiError, LookupError, TypeError, ValueError) as error:
            log.info("positions in a queue are not known", extra={"queue": "/".join(queue), "error": str(error)})
            return self._clock() + _WITHOUT_SECONDS, {}
        return self._clock() + _SECONDS, positions


class Kueue:
    """The watch of Kueue's objects.

    Args:
        client: client of the API server.
        namespaces: the namespaces of the controller.
        on_job: is called with the key of the job of a changed Workload.
        on_change: is called when something has changed that concerns every job.
    """

    def __init__(
        self, client: ApiClient, namespaces: Iterable[str], on_job: OnChange, on_change: Callable[[], None]
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
        flavors = WatchedResource.for_kind(prefix, FLAVORS, ALL_NAMESPACES)
        workloads = [
            WatchedResource.for_kind(prefix, PLURAL, namespace, names.POD_SELECTOR) for namespace in self._namespaces
        ]
        return [
            Informer(self._client, flavors, self.flavors),
            *(Informer(self._client, watched, self.workloads) for watched in workloads),
        ]


async def served_version(client: ApiClient) -> str:
    """Return the best version of Kueue's API that the API server serves; "" for none.

    Raises:
        RejectedError: it serves only versions that the controller does not know: Kueue is there, and cannot be used.
        ApiError: the request failed.
    """
    group = await client.request("GET", f"/apis/{GROUP}", resource="discovery")
    versions = {str(item.get("version")) for item in group.get("versions") or ()}
    known = next((version for version in VERSIONS if version in versions), "")
    # Kueue is there and cannot be used: that must not count as absent, or jobs would start outside of its quota
    # (ADR 54).
    if versions and not known:
        text = f"{GROUP} has only {', '.join(sorted(versions))}, and TFDist knows {', '.join(VERSIONS)}; upgrade TFDist"
        raise RejectedError(0, "UnknownVersion", text)
    return known
