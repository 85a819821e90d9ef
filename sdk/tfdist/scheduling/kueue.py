"""Kueue, whose queues decide whether the pods of a job may exist: its Workload, as it is rendered, read and waited for.

Kueue admits Workloads of any owner. With a Workload per job, the pods need no integration of Kueue: the job has one
Workload for its lifetime, and keeps its quota while its replicas restart (ADR 38). The types belong to
`kueue.x-k8s.io/v1beta1` and `v1beta2`, which agree in these fields (kueue, `workload_types.go`).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tfdist.api.gang_system import Availability, GangSystem
from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role
from tfdist.render import names
from tfdist.render.gang import gangs
from tfdist.render.installation import Installation
from tfdist.render.metadata import Manifest, metadata
from tfdist.render.names import PRIORITY_CLASS_ANNOTATION, SPEC_HASH_LABEL
from tfdist.render.pod import pod_template
from tfdist.render.pod_placement import PodPlacement
from tfdist.scheduling.queue import Queue, QueueWait

Raw = Mapping[str, Any]

GROUP: Final = "kueue.x-k8s.io"
VERSIONS: Final = ("v1beta2", "v1beta1")
"""Versions whose fields the controller knows, the preferred one first."""
KIND: Final = "Workload"
PLURAL: Final = "workloads"
PRIORITY_CLASS_LABEL: Final = f"{GROUP}/priority-class"
KUEUE_PRIORITY_CLASSES: Final = "workloadpriorityclasses"
"""Resource of Kueue's own priority classes."""
POD_PRIORITY_CLASSES: Final = "priorityclasses"
"""Resource of Kubernetes' priority classes."""
FLAVORS: Final = "resourceflavors"
"""Resource of the flavors that an admission assigns."""
_DEFAULT_QUEUE: Final = "default"
"""The LocalQueue that Kueue itself gives jobs without a queue."""

_NOT_INSTALLED: Final = (
    f"Kueue must admit the job, but the API server does not serve {PLURAL}.{GROUP}; install Kueue, or create a new "
    "job without the queue and with scheduling.gang: Auto"
)
_UNREADABLE: Final = (
    f"Kueue must admit the job, but its API {GROUP} cannot be read now; nothing starts until it can. If this lasts, "
    "see the controller's log for the cause, for example a missing right to list Workloads and ResourceFlavors"
)
_WAITS: Final = "waits for admission"
_SCHEDULING_FIELDS: Final = (
    "affinity", "nodeSelector", "overhead", "resourceClaims", "runtimeClassName", "schedulerName", "tolerations",
)  # fmt: skip
_CONTAINER_FIELDS: Final = ("name", "image", "resources", "restartPolicy")
_HASH_DIGITS: Final = 16


def queue_name(job: TFDistJob) -> str:
    """Return the LocalQueue of a job, from `scheduling.queue` or the label by which jobs of other kinds name it."""
    return job.spec.scheduling.queue or job.metadata.labels.get(names.QUEUE_LABEL, "") or _DEFAULT_QUEUE


def pod_set_of(role: Role) -> str:
    """Return the name of the pod set of a role; an evaluation after training uses the quota of the workers."""
    return str(Role.WORKER if role is Role.EVALUATION else role)


def workload(job: TFDistJob, installation: Installation) -> Manifest:
    """Return the Workload of a job, without its priority: that is the value of a priority class of the cluster.

    A label has the hash of its specification, and an annotation the priority class, which may change at any time.
    """
    spec = {"queueName": queue_name(job), "podSets": list(_pod_sets(job, installation))}
    # Compared instead of the content, to which the API server adds defaults.
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:_HASH_DIGITS]
    meta = metadata(job, names.workload(job.metadata.name, job.metadata.uid))
    meta["labels"] = meta["labels"] | {names.SPEC_HASH_LABEL: digest, f"{GROUP}/job-uid": job.metadata.uid}
    meta["annotations"] = {names.PRIORITY_CLASS_ANNOTATION: _priority_class(job, installation)}
    return {"kind": KIND, "metadata": meta, "spec": spec}


def _priority_class(job: TFDistJob, installation: Installation) -> str:
    """Return resource and name of the class that has the priority of a job; without a name, it is the default one."""
    if name := job.metadata.labels.get(PRIORITY_CLASS_LABEL, ""):
        return f"{KUEUE_PRIORITY_CLASSES}/{name}"
    roles = dict.fromkeys(member.role for gang in gangs(job) for member in gang.members)
    of_pods = (pod_template(job, role, installation)["spec"].get("priorityClassName") for role in roles)
    return f"{POD_PRIORITY_CLASSES}/{next(filter(None, of_pods), '')}"


def _pod_sets(job: TFDistJob, installation: Installation) -> Iterator[Manifest]:
    """Yield a pod set for each role that the job runs at one time, with the most pods of it."""
    counts: dict[str, int] = {}
    templates: dict[str, Manifest] = {}
    for gang in gangs(job):
        for role in dict.fromkeys(member.role for member in gang.members):
            name = pod_set_of(role)
            # Gangs that share a pod set follow each other, so the larger one is enough.
            counts[name] = max(counts.get(name, 0), gang.sizes()[str(role)])
            if name not in templates:
                templates[name] = _requests(pod_template(job, role, installation))
    return ({"name": name, "count": counts[name], "template": templates[name]} for name in counts)


def _requests(template: Mapping[str, Any]) -> Manifest:
    """Return the part of a pod template that quota and nodes depend on, without the size of commands and variables."""
    spec = template["spec"]
    fields: Manifest = {name: spec[name] for name in _SCHEDULING_FIELDS if name in spec}
    for kind in ("initContainers", "containers"):
        if containers := [_container(c) for c in spec.get(kind, ())]:
            fields[kind] = containers
    claims = [v for v in spec.get("volumes", ()) if "persistentVolumeClaim" in v]
    if claims:
        fields["volumes"] = claims
    return {"spec": fields | {"restartPolicy": "Never"}}


def _container(container: Mapping[str, Any]) -> Manifest:
    """Return the fields of a container that quota depends on, and the image, for readers of the Workload."""
    return {name: container[name] for name in _CONTAINER_FIELDS if name in container}


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


def admission_wait(view: KueueView, *, runs: bool) -> QueueWait | None:
    """Return why a job waits in its queue; None if it is admitted.

    Args:
        view: the state of the job.
        runs: whether a pod of it uses resources.
    """
    summary = view.workload
    # An eviction first: the conditions of reservation and admission may still be True then.
    if summary is None or summary.deleting or summary.finished:
        return QueueWait(view.error or _WAITS)
    if summary.evicted:
        return _wait_of_condition(summary, "Evicted")
    if not summary.admitted:
        reserved, checks = summary.condition("QuotaReserved"), _pending_checks(summary)
        if reserved.get("status") == "True":
            return QueueWait("; ".join(["its quota is reserved", *checks]), reserved.get("lastTransitionTime", ""))
        if view.error or not reserved:
            return QueueWait(view.error or _WAITS)
        return _wait_of_condition(summary, "QuotaReserved")
    # The pods would ignore the assigned topology domains.
    if summary.has_topology:
        return QueueWait(
            "Kueue assigned a topology, which TFDist does not support; use a ResourceFlavor without topologyName"
        )
    unknown = summary.flavors() - view.flavors.keys()
    # Without the flavor its node selector is missing, and pods would run on nodes of another quota.
    if unknown and not runs:
        return QueueWait(f"its ResourceFlavor {min(unknown)} is not known")
    return None


def _wait_of_condition(summary: WorkloadSummary, kind: str) -> QueueWait:
    condition = summary.condition(kind)
    return QueueWait(str(condition.get("message") or condition.get("reason")), condition.get("lastTransitionTime", ""))


def _pending_checks(summary: WorkloadSummary) -> list[str]:
    """Return the admission checks that are not ready, with their messages."""
    checks = [check for check in summary.status.get("admissionChecks", ()) if check.get("state") != "Ready"]
    return [f"{check.get('name')}: {check.get('message') or check.get('state')}" for check in checks]


def _missing(availability: Availability) -> str:
    return _UNREADABLE if availability is Availability.UNKNOWN else _NOT_INSTALLED


def _manifest(job: TFDistJob, installation: Installation) -> Manifest:
    return {"apiVersion": f"{GROUP}/{VERSIONS[0]}"} | workload(job, installation)


KUEUE: Final = Queue(
    system=GangSystem.KUEUE,
    resource=f"{PLURAL}.{GROUP}",
    label=names.QUEUE_LABEL,
    name=queue_name,
    manifest=_manifest,
    missing=_missing,
    rules=(
        (GROUP, FLAVORS, ("list", "watch")),
        (GROUP, KUEUE_PRIORITY_CLASSES, ("list",)),
        (GROUP, PLURAL, ("create", "delete", "list", "patch", "watch")),
        (GROUP, f"{PLURAL}/status", ("patch",)),
        ("scheduling.k8s.io", POD_PRIORITY_CLASSES, ("list",)),
        (f"visibility.{GROUP}", "localqueues/pendingworkloads", ("get",)),
    ),
)
