"""The state of one job in Kueue: the fields of its Workload that planning needs, and the flavors of the cluster.

The types belong to `kueue.x-k8s.io/v1beta1` and `v1beta2`, which agree in these fields (kueue, `workload_types.go`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfdist.render.names import PRIORITY_CLASS_ANNOTATION, SPEC_HASH_LABEL
from tfdist.render.pod_placement import PodPlacement

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WorkloadSummary:
    """The Workload of a job."""

    name: str
    uid: str
    resource_version: int
    spec_hash: str
    """Of the specification that the controller applied."""
    deleting: bool
    status: Raw
    """As stored, of which `conditions`, `admission`, `admissionChecks` and `reclaimablePods` are read."""
    priority_class: str = ""
    """Resource and name of the class that its priority is of; "" if the version that made it has not recorded it."""

    def condition(self, kind: str) -> Raw:
        """Return the condition of a type; empty without one."""
        return next((c for c in self.status.get("conditions", ()) if c["type"] == kind), {})

    def _is_true(self, kind: str) -> bool:
        return bool(self.condition(kind).get("status") == "True")

    @property
    def admitted(self) -> bool:
        """Whether the job may run."""
        return self._is_true("Admitted") and not self.evicted

    @property
    def holds_quota(self) -> bool:
        """Whether a ClusterQueue has reserved its quota."""
        return self._is_true("QuotaReserved")

    @property
    def evicted(self) -> bool:
        """Whether the job must stop; its quota is released when it has."""
        return self._is_true("Evicted") and self.holds_quota

    @property
    def waits(self) -> bool:
        """Whether Kueue has evaluated it without reserving its quota."""
        return self.condition("QuotaReserved").get("status") == "False" and not self.finished

    @property
    def finished(self) -> bool:
        """Whether the Workload has finished: it is never admitted again."""
        return self._is_true("Finished")

    @property
    def has_topology(self) -> bool:
        """Whether Kueue has chosen the nodes by topology."""
        return any("topologyAssignment" in assigned for assigned in self._assignments())

    def reclaimable(self) -> dict[str, int]:
        """Return how many pods of each pod set no longer need quota, leaving out pod sets that need all of it."""
        entries: Iterable[Raw] = self.status.get("reclaimablePods", ())
        return {str(entry["name"]): int(entry["count"]) for entry in entries if entry["count"]}

    def flavors(self) -> set[str]:
        """Return the names of the ResourceFlavors that are assigned."""
        return {name for assigned in self._assignments() for name in assigned.get("flavors", {}).values()}

    def _assignments(self) -> Iterable[Raw]:
        assignments: Iterable[Raw] = self.status.get("admission", {}).get("podSetAssignments", ())
        return assignments

    def placements(self, flavors: Mapping[str, PodPlacement]) -> dict[str, PodPlacement]:
        """Return what the admission adds to the pods, by name of the pod set."""
        return {
            str(assigned["name"]): PodPlacement().merge(
                *(flavors[name] for name in dict.fromkeys(assigned.get("flavors", {}).values()) if name in flavors),
                *self._updates(str(assigned["name"])),
            )
            for assigned in self._assignments()
        }

    def _updates(self, pod_set: str) -> Iterator[PodPlacement]:
        """Yield what admission checks add to the pods of a pod set, such as the provisioning of nodes."""
        for check in self.status.get("admissionChecks", ()):
            for update in check.get("podSetUpdates", ()):
                if update.get("name") == pod_set:
                    yield PodPlacement(
                        update.get("nodeSelector", {}),
                        tuple(update.get("tolerations", ())),
                        update.get("labels", {}),
                        update.get("annotations", {}),
                    )


@dataclass(frozen=True, slots=True)
class KueueView:
    """The state of one job in Kueue."""

    workload: WorkloadSummary | None = None
    flavors: Mapping[str, PodPlacement] = field(default_factory=dict)
    """The ResourceFlavors of the cluster, by name."""
    position: int | None = None
    """Position in its LocalQueue, from 1; None if it does not wait, or if the position is not known."""
    error: str = ""
    """Why the Workload could not be created or changed; "" after a success."""


def workload_summary(raw: Raw) -> WorkloadSummary:
    """Return the summary of a Workload, given its JSON from the API server.

    Raises:
        KeyError, ValueError: it lacks metadata that every object has.
    """
    meta = raw["metadata"]
    return WorkloadSummary(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=int(meta["resourceVersion"]),
        spec_hash=(meta.get("labels") or {}).get(SPEC_HASH_LABEL, ""),
        deleting="deletionTimestamp" in meta,
        status=raw.get("status") or {},
        priority_class=(meta.get("annotations") or {}).get(PRIORITY_CLASS_ANNOTATION, ""),
    )


def flavor_placement(raw: Raw) -> PodPlacement:
    """Return what a ResourceFlavor, given as JSON, adds to the pods that are admitted with it."""
    spec = raw.get("spec") or {}
    return PodPlacement(spec.get("nodeLabels") or {}, tuple(spec.get("tolerations") or ()))
