"""Kueue as far as one job sees it: a Workload that is stored, admitted, evicted and deleted, without any process."""

import copy
from typing import Any

from support.factories import Lifecycle
from tfdist.planner import Plan
from tfdist.planner.plan import WorkloadChange
from tfdist.scheduling.kueue import KueueView, WorkloadSummary, flavor_placement, workload_summary

EVICTS, ADMITS, DELETES, GOES = range(4)

FLAVOR: dict[str, Any] = {
    "metadata": {"name": "spot"},
    "spec": {"nodeLabels": {"pool": "spot"}, "tolerations": [{"key": "spot"}]},
}


class StaleError(Exception):
    """Another client has written an object since it was seen."""


class SimulatedKueue:
    """The Workload of one job. `workload` is its JSON, None before its creation."""

    def __init__(self, flavor: dict[str, Any] | None = None) -> None:
        self.flavor = flavor or FLAVOR
        self.workload: dict[str, Any] | None = None
        self.error = ""
        self.served = True
        self.position: int | None = None
        self._version = 0

    def view(self) -> KueueView:
        """Return what a reconcile sees."""
        summary = workload_summary(copy.deepcopy(self.workload)) if self.workload else None
        flavors = {self.flavor["metadata"]["name"]: flavor_placement(self.flavor)}
        return KueueView(summary, flavors, self.position, self.error)

    def execute(self, change: WorkloadChange | None, seen: KueueView | None = None) -> None:
        """Make the change of a plan, as the API server does.

        Args:
            change: the change; None for none.
            seen: what the plan was made from; by default the state now.

        Raises:
            StaleError: the Workload has been written since.
        """
        if change is None:
            return
        workload = (seen or self.view()).workload
        if change.delete:
            self.workload = None if workload and self._is(workload) else self.workload
        elif workload is None and self.workload is None and change.manifest is not None:
            self._store(change.manifest, {})
        elif workload is not None:
            if self.workload is None or not self._is(workload) or self._version != workload.resource_version:
                raise StaleError
            merged = {**self.workload["status"], **(change.status or {})}
            status = {name: value for name, value in merged.items() if value is not None}
            self._check_reclaimable(status)
            self._store(self._changed(change.manifest), status)

    def _check_reclaimable(self, status: dict[str, Any]) -> None:
        """Reject counts as Kueue does (`workload_webhook.go`): too many, or fewer by the same quota."""
        assert self.workload is not None
        counts = {each["name"]: each["count"] for each in status.get("reclaimablePods", ())}
        sizes = {each["name"]: each["count"] for each in self.workload["spec"]["podSets"]}
        assert all(counts[name] <= sizes[name] for name in counts), (counts, sizes)
        keeps = any(c["type"] == "QuotaReserved" and c["status"] == "True" for c in status.get("conditions", ()))
        if self.reserved and keeps:
            assert all(counts.get(name, 0) >= count for name, count in self.reclaimable.items()), "a count decreased"

    @property
    def reclaimable(self) -> dict[str, int]:
        """How many pods of each pod set need no quota any more."""
        entries = self.workload["status"].get("reclaimablePods", ()) if self.workload else ()
        return {each["name"]: each["count"] for each in entries}

    def _changed(self, manifest: dict[str, Any] | None) -> dict[str, Any]:
        """Return the Workload with another specification; while quota is reserved, only the priority changes."""
        assert self.workload is not None
        if manifest is None or not self.reserved:
            return manifest or self.workload
        meta = self.workload["metadata"] | {"annotations": manifest["metadata"]["annotations"]}
        return self.workload | {"metadata": meta}

    def _is(self, workload: WorkloadSummary) -> bool:
        return self.workload is not None and self.workload["metadata"]["uid"] == workload.uid

    def _store(self, manifest: dict[str, Any], status: dict[str, Any]) -> None:
        self._version += 1
        uid = self.workload["metadata"]["uid"] if self.workload else f"w{self._version}"
        meta = manifest["metadata"] | {"uid": uid, "resourceVersion": str(self._version)}
        self.workload = manifest | {"metadata": meta, "status": status}

    def happen(self, which: int) -> None:
        """Have Kueue admit or evict the job, a user delete its Workload, or Kueue go or come back."""
        self.served = not self.served if which == GOES else self.served
        if self.workload is None:
            return
        if which == EVICTS and self.admitted:
            self.evict()
        elif which == ADMITS and not self.reserved:
            self.admit()
        elif which == DELETES:
            self.workload = None

    @property
    def reserved(self) -> bool:
        """Whether the job has quota."""
        return self.condition("QuotaReserved")[0] == "True"

    @property
    def priority_class(self) -> str:
        """Resource and name of the class of its priority."""
        assert self.workload is not None
        return str(self.workload["metadata"]["annotations"]["tfdist.dev/priority-class"])

    @property
    def finished(self) -> bool:
        """Whether the job is reported to have finished."""
        return self.condition("Finished")[0] == "True"

    @property
    def admitted(self) -> bool:
        """Whether the job may run."""
        return self.reserved and not self.evicted

    @property
    def evicted(self) -> bool:
        """Whether the job must stop."""
        return self.condition("Evicted")[0] == "True"

    def admit(self) -> None:
        """Reserve the quota, and admit the job."""
        assert self.workload is not None
        sets = self.workload["spec"]["podSets"]
        name = self.flavor["metadata"]["name"]
        left = {s["name"]: s["count"] - self.reclaimable.get(s["name"], 0) for s in sets}
        assigned = [{"name": s["name"], "count": left[s["name"]], "flavors": {"cpu": name}} for s in sets]
        self.workload["status"]["admission"] = {"clusterQueue": "all", "podSetAssignments": assigned}
        for kind, status in (("QuotaReserved", "True"), ("Admitted", "True"), ("Evicted", "False")):
            self.set_condition(kind, status, kind, "")

    def evict(self, reason: str = "Preempted", message: str = "Preempted for a job of a higher priority") -> None:
        """Have the job stop; its quota stays reserved until the controller releases it."""
        self.set_condition("Evicted", "True", reason, message)

    def wait(self, message: str) -> None:
        """Report why the quota is not reserved."""
        self.set_condition("QuotaReserved", "False", "Pending", message)

    def set_condition(self, kind: str, status: str, reason: str, message: str) -> None:
        """Set a condition of the Workload."""
        assert self.workload is not None
        self._version += 1
        self.workload["metadata"]["resourceVersion"] = str(self._version)
        time = "2030-01-02T03:04:00Z"
        new = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time}
        others = [c for c in self.workload["status"].get("conditions", ()) if c["type"] != kind]
        self.workload["status"]["conditions"] = [*others, new]

    def condition(self, kind: str) -> tuple[str, str]:
        """Return status and reason of a condition; ("", "") without one."""
        conditions = self.workload["status"].get("conditions", ()) if self.workload else ()
        return next(((c["status"], c["reason"]) for c in conditions if c["type"] == kind), ("", ""))


BOTH = "worker-0:R worker-1:R"
KUEUE: dict[str, Any] = {"scheduling": {"gang": "Kueue", "queue": "team-a"}}


class Story:
    """A job and Kueue; each plan is executed as far as it concerns the Workload."""

    def __init__(self, kueue: SimulatedKueue | None = None, **spec: Any) -> None:
        self.kueue = kueue or SimulatedKueue()
        self.job = Lifecycle(**(KUEUE | spec))

    def reconcile(self, pods: Any = "", after: float = 0, **changes: Any) -> Plan:
        """Reconcile so many seconds after the last time, change the Workload, and return the plan."""
        todo = self.job.reconcile(pods, after, **({"kueue": self.kueue.view()} | changes))
        self.kueue.execute(todo.workload)
        return todo

    def running(self) -> "Story":
        """Return the story of a job that is admitted and whose replicas run."""
        self.reconcile()
        self.kueue.admit()
        self.reconcile()
        self.reconcile(BOTH)
        return self
