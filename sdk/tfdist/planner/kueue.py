"""Kueue decides when a job runs: the job waits in its queue, and stops when Kueue evicts it, as if it was suspended.

The controller does what Kueue's `jobframework` does for the jobs that Kueue knows (kueue, `reconciler.go`): it makes
the Workload, starts the pods when that is admitted, stops them when it is evicted, releases the quota when they have
ended, and reports when they are ready and when the job has finished.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tfdist.api.gang_system import GangSystem
from tfdist.api.status import ConditionType
from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role
from tfdist.observed.job_view import JobView
from tfdist.observed.kueue import WorkloadSummary
from tfdist.planner.plan import WorkloadChange
from tfdist.render import names
from tfdist.render.installation import Installation
from tfdist.render.metadata import Manifest
from tfdist.render.pod_placement import PodPlacement
from tfdist.render.workload import GROUP, PLURAL, pod_set_of, queue_name, workload
from tfdist.status.conditions import is_true
from tfdist.timestamps import rfc3339

NOT_INSTALLED: Final = (
    f"scheduling.gang: Kueue: the API server serves no {PLURAL}.{GROUP}, or the controller must not list them and the "
    "ResourceFlavors; install Kueue, or choose Auto in a new job"
)
_NOT_READY: Final = "not all pods run"
POSITION_SECONDS: Final = 60.0
"""How often the position in a queue is read again: no change of the Workload reports it."""
_WAITS: Final = "waits for admission"


@dataclass(frozen=True, slots=True)
class QueueWait:
    """Why a job may not run now: its queue has not admitted it, or evicts it."""

    message: str
    since: str = ""
    """Since when (RFC 3339), as far as Kueue reports it."""
    position: int | None = None
    """Position in the queue, from 1, if it is known."""


def uses_kueue(view: JobView, job: TFDistJob) -> bool:
    """Return whether Kueue decides when a job runs.

    With `Auto`, pods that another system has started keep that.
    """
    scheduling = job.spec.scheduling
    if scheduling.gang != "Auto":
        return scheduling.gang == "Kueue"
    asks = scheduling.queue is not None or names.QUEUE_LABEL in job.metadata.labels
    started_by = view.status.scheduling.system if view.status.scheduling else GangSystem.KUEUE
    return asks and view.kueue is not None and (started_by is GangSystem.KUEUE or not _lives(view))


def is_missing(view: JobView, job: TFDistJob) -> bool:
    """Return whether Kueue decides when a job runs, and is not installed: then no pod is created."""
    return view.kueue is None and uses_kueue(view, job)


def queue_wait(view: JobView, job: TFDistJob, *, outdated: bool) -> QueueWait | None:
    """Return why a job may not run; None if it may. Without Kueue, pods that run go on and none is created.

    Args:
        view: the observed state.
        job: its specification.
        outdated: the result of `has_outdated_workload`.
    """
    if not uses_kueue(view, job):
        return None
    if view.kueue is None:
        return None if _lives(view) else QueueWait(NOT_INSTALLED)
    waits = _waiting(view, view.kueue.workload)
    if waits is None and outdated and all(p.ended or p.deleting for p in view.pods):
        waits = QueueWait("its replicas have changed, and wait for another admission")
    if waits is None:
        return None
    place = f", position {view.kueue.position}" if view.kueue.position else ""
    return QueueWait(f"queue {queue_name(job)}{place}: {waits.message}", waits.since, view.kueue.position)


def has_outdated_workload(view: JobView, job: TFDistJob, installation: Installation) -> bool:
    """Return whether a job holds quota for other pods than it would start now; these need another admission."""
    found = view.kueue.workload if view.kueue and not view.problems and uses_kueue(view, job) else None
    return found is not None and found.holds_quota and found.spec_hash != _spec_hash(workload(job, installation))


def _spec_hash(wanted: Manifest) -> str:
    return str(wanted["metadata"]["labels"][names.SPEC_HASH_LABEL])


def _waiting(view: JobView, found: WorkloadSummary | None) -> QueueWait | None:
    """Return what a job waits for in its queue; None if it is admitted."""
    assert view.kueue is not None  # noqa: S101  the caller has checked it
    if found is None or found.deleting or found.finished:
        return QueueWait(view.kueue.error or _WAITS)
    if found.evicted:
        return _of_condition(found, "Evicted")
    if not found.admitted:
        reserved, checks = found.condition("QuotaReserved"), _pending_checks(found)
        if reserved.get("status") == "True":
            return QueueWait("; ".join(["its quota is reserved", *checks]), reserved.get("lastTransitionTime", ""))
        return _of_condition(found, "QuotaReserved") if reserved else QueueWait(view.kueue.error or _WAITS)
    if found.has_topology:
        return QueueWait(
            "Kueue assigned a topology, which TFDist does not support; use a ResourceFlavor without topologyName"
        )
    unknown = found.flavors() - view.kueue.flavors.keys()
    if unknown and not _lives(view):
        return QueueWait(f"its ResourceFlavor {min(unknown)} is not known")
    return None


def _of_condition(found: WorkloadSummary, kind: str) -> QueueWait:
    condition = found.condition(kind)
    return QueueWait(str(condition.get("message") or condition.get("reason")), condition.get("lastTransitionTime", ""))


def _pending_checks(found: WorkloadSummary) -> list[str]:
    """Return the admission checks that are not ready, with their messages."""
    checks = [check for check in found.status.get("admissionChecks", ()) if check.get("state") != "Ready"]
    return [f"{check.get('name')}: {check.get('message') or check.get('state')}" for check in checks]


def placements(view: JobView, job: TFDistJob) -> Mapping[Role, PodPlacement]:
    """Return what the admission of a job adds to the pods of each role."""
    if view.kueue is None or view.kueue.workload is None or not uses_kueue(view, job):
        return {}
    found = view.kueue.workload.placements(view.kueue.flavors)
    return {role: found[pod_set_of(role)] for role in Role if pod_set_of(role) in found}


def workload_change(
    view: JobView, job: TFDistJob, installation: Installation, now: datetime, *, outdated: bool, all_run: bool
) -> WorkloadChange | None:
    """Return what to change of the Workload of a job that has not finished; None for nothing.

    Args:
        view: the observed state.
        job: its valid specification.
        installation: settings of the installation.
        now: the time.
        outdated: the result of `has_outdated_workload`.
        all_run: whether all replicas of the current gang run.
    """
    if view.kueue is None:
        return None
    found = view.kueue.workload
    if not uses_kueue(view, job) or job.spec.run_policy.suspend:
        return WorkloadChange(delete=True) if found and not found.deleting and not _lives(view) else None
    if found is not None and found.deleting:
        return None
    if found is not None and (found.finished or (outdated and not _lives(view))):
        return WorkloadChange(delete=True)
    if found is None or not found.holds_quota:
        return None if view.problems else _applied(workload(job, installation), found)
    if found.evicted:
        return None if _lives(view) else WorkloadChange(status=_released(found, now))
    return _readiness(found, now, all_run=all_run)


def _applied(wanted: Manifest, found: WorkloadSummary | None) -> WorkloadChange | None:
    """Return the change by which a Workload without quota is the wanted one; None if it is."""
    same = found is not None and found.spec_hash == _spec_hash(wanted)
    return None if same else WorkloadChange(manifest=wanted)


def finished_workload(view: JobView, now: datetime) -> WorkloadChange | None:
    """Return the change by which the Workload of a finished job releases its quota, once its pods have ended."""
    found = view.kueue.workload if view.kueue else None
    if found is None or found.finished or found.deleting or _lives(view):
        return None
    succeeded = is_true(view.status, ConditionType.SUCCEEDED)
    text = (view.status.summary.message if view.status.summary else None) or "the job has finished"
    changed = _condition("Finished", True, "Succeeded" if succeeded else "Failed", text, now)
    return WorkloadChange(status={"conditions": _merged(found, [changed])})


def _released(found: WorkloadSummary, now: datetime) -> dict[str, Any]:
    """Return the status by which an evicted Workload waits in its queue again, at its former place.

    Kueue itself sets `Requeued` to True when what it was evicted for is over, unless that was a preemption or a node.
    """
    evicted = found.condition("Evicted")
    reason, text = str(evicted.get("reason")), str(evicted.get("message"))
    again = reason in {"Preempted", "NodeFailures"}
    changed = [
        _condition("QuotaReserved", False, "Pending", text, now),
        _condition("Admitted", False, "NoReservation", "The workload has no reservation", now),
        _condition("PodsReady", False, "WaitForStart", _NOT_READY, now),
        _condition("Requeued", again, reason, text, now),
    ]
    return {"admission": None, "conditions": _merged(found, changed)}


def _readiness(found: WorkloadSummary, now: datetime, *, all_run: bool) -> WorkloadChange | None:
    """Return the change of `PodsReady`, from which Kueue's `waitForPodsReady` knows whether the pods run."""
    known = found.condition("PodsReady")
    if (known.get("status") == "True") == all_run:
        return None
    recovers = known.get("reason") in {"WaitForRecovery", "Recovered", "Started"}
    if all_run:
        reason = "Recovered" if recovers else "Started"
        changed = _condition("PodsReady", True, reason, "all pods run", now)
    else:
        changed = _condition("PodsReady", False, "WaitForRecovery", _NOT_READY, now)
    return WorkloadChange(status={"conditions": _merged(found, [changed])})


def _condition(kind: str, status: bool, reason: str, message: str, now: datetime) -> dict[str, Any]:
    return {
        "type": kind,
        "status": str(status),
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(now),
    }


def _merged(found: WorkloadSummary, changed: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return all conditions of a Workload, the changed ones last: a merge patch replaces the whole list."""
    kinds = {condition["type"] for condition in changed}
    return [*(c for c in found.status.get("conditions", ()) if c["type"] not in kinds), *changed]


def _lives(view: JobView) -> bool:
    """Return whether a pod of the job uses resources."""
    return any(not pod.ended or pod.sidecars_run for pod in view.pods)
