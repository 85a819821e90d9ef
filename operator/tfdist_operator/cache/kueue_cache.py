"""The caches of Kueue's objects: the Workloads of jobs, and the ResourceFlavors of the cluster."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from tfdist.observed.kueue import WorkloadSummary, flavor_placement, workload_summary
from tfdist.render import names
from tfdist.render.pod_placement import PodPlacement
from tfdist_operator.cache.object_cache import ObjectCache, Raw
from tfdist_operator.kube.keys import ALL_NAMESPACES, NamespacedName


class WorkloadCache(ObjectCache[WorkloadSummary]):
    """The Workloads of jobs; `on_change` is called with the key of the job."""

    def of_job(self, key: NamespacedName, uid: str) -> WorkloadSummary | None:
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
        """Each with its UID."""

    def by_name(self) -> Mapping[str, PodPlacement]:
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
