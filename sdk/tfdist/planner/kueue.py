"""Kueue decides when a job runs: a job waits in its queue, and is suspended when Kueue evicts it.

The controller does what Kueue's `jobframework` does for the jobs that Kueue knows (kueue, `reconciler.go`): it makes
the Workload, starts the pods when that is admitted, stops them when it is evicted, releases the quota when they have
ended, and reports when they are ready and when the job has finished.

While quota is reserved, Kueue accepts no lower number (kueue, `workload_webhook.go`): what has been released comes back
only with another admission. Replicas that a restart may run again are therefore never released.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from tfdist.api.gang_status import GangStatus, SchedulingStatus
from tfdist.api.gang_system import Availability
from tfdist.api.status import ConditionType
from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.contract import Role
from tfdist.observed.gang_record import stored_records
from tfdist.observed.job_view import JobView
from tfdist.planner.plan import WorkloadChange
from tfdist.render import names
from tfdist.render.gang import Gang, GangName, gangs
from tfdist.render.installation import Installation
from tfdist.render.metadata import Manifest
from tfdist.render.pod_placement import PodPlacement
from tfdist.scheduling.choice import has_queues
from tfdist.scheduling.kueue import KUEUE, WorkloadSummary, admission_wait, pod_set_of, queue_name, workload
from tfdist.scheduling.queue import QueueWait
from tfdist.status.conditions import is_true
from tfdist.status.phase import is_suspended_or_suspending, training_succeeded
from tfdist.status.text import message
from tfdist.timestamps import rfc3339

_NOT_READY: Final = "not all pods run"
POSITION_SECONDS: Final = 60.0
"""How often the position in a queue is read again: no change of the Workload reports it."""
_LONGEST_REASON: Final = 1024

Records = Mapping[GangName, GangStatus]


def uses_kueue(view: JobView, job: TFDistJob) -> bool:
    """Return whether Kueue decides when a job runs.

    With `Auto`, a job that Kueue has had stays under it, whether its API is served or not, and pods that another system
    has scheduled keep that system. While it is not known whether Kueue is there, a queue is not left for that reason.
    """
    scheduling = job.spec.scheduling
    if scheduling.gang != "Auto":
        return scheduling.gang == KUEUE.system
    if not KUEUE.is_named_by(job):
        return False
    # Never back to pods without quota because discovery failed for a moment (ADR 54).
    if _was_under_kueue(view):
        return True
    match view.availability(KUEUE.system):
        case Availability.SERVED:
            return not _uses_resources(view)
        case Availability.UNKNOWN:
            return view.status.scheduling is None or not has_queues(view.status.scheduling.system)
        case Availability.ABSENT:
            return False


def _was_under_kueue(view: JobView) -> bool:
    """Return whether a job has a Workload, or has had one."""
    scheduling = view.status.scheduling
    has_workload = view.kueue is not None and view.kueue.workload is not None
    return has_workload or (scheduling is not None and scheduling.system is KUEUE.system)


def missing_reason(view: JobView, job: TFDistJob) -> str:
    """Return why Kueue, which decides when a job runs, cannot admit it, so that no pod is created; "" if it can."""
    if view.kueue is not None or not uses_kueue(view, job):
        return ""
    return KUEUE.missing(view.availability(KUEUE.system))


def kueue_status(view: JobView, job: TFDistJob) -> SchedulingStatus | None:
    """Return `status.scheduling` of a job for which Kueue decides, as long as it is known that it does.

    Stored, `Kueue` means that the job has a Workload: one that waits to know whether Kueue is there has none yet.
    """
    if view.kueue is None and job.spec.scheduling.gang == "Auto" and not _was_under_kueue(view):
        return view.status.scheduling
    error = message(view.kueue.error)[:_LONGEST_REASON] if view.kueue else ""
    return SchedulingStatus(system=KUEUE.system, queue=queue_name(job), reason=error or None)


def queue_wait(view: JobView, job: TFDistJob, *, outdated: bool) -> QueueWait | None:
    """Return why a job may not run; None if it may.

    Without Kueue, running pods continue unless the job is stopping already, and none is created.

    Args:
        view: the observed state.
        job: its specification.
        outdated: the result of `has_outdated_workload`.
    """
    if not uses_kueue(view, job):
        return None
    # Without Kueue nobody can evict or admit: running pods go on, and none is added.
    if view.kueue is None:
        goes_on = _uses_resources(view) and not is_suspended_or_suspending(view.status)
        return None if goes_on else QueueWait(missing_reason(view, job))
    waits = admission_wait(view.kueue, runs=_uses_resources(view))
    if waits is None and outdated and all(p.ended or p.deleting for p in view.pods):
        waits = QueueWait("its replicas have changed, or completed ones run again: they wait for another admission")
    if waits is None:
        return None
    place = f", position {view.kueue.position}" if view.kueue.position else ""
    return QueueWait(f"queue {queue_name(job)}{place}: {waits.message}", waits.since, view.kueue.position)


def has_outdated_workload(view: JobView, job: TFDistJob, installation: Installation, records: Records) -> bool:
    """Return whether a job holds quota for other pods than it would start now; these need another admission.

    Args:
        view: the observed state.
        job: its specification.
        installation: settings of the installation.
        records: of its gangs, from the status or of an attempt that begins now.
    """
    stored = view.kueue.workload if view.kueue and not view.problems and uses_kueue(view, job) else None
    if stored is None or not stored.holds_quota:
        return False
    desired = workload(job, installation)
    return stored.spec_hash != _spec_hash(desired) or lacks_quota(view, job, desired, stored, records)


def _spec_hash(manifest: Manifest) -> str:
    return str(manifest["metadata"]["labels"][names.SPEC_HASH_LABEL])


def _class_of(manifest: Manifest) -> str:
    return str(manifest["metadata"]["annotations"][names.PRIORITY_CLASS_ANNOTATION])


def placements(view: JobView, job: TFDistJob) -> Mapping[Role, PodPlacement]:
    """Return the placement that the admission of a job adds to the pods of each role."""
    if view.kueue is None or view.kueue.workload is None or not uses_kueue(view, job):
        return {}
    pod_sets = view.kueue.workload.placements(view.kueue.flavors)
    return {role: pod_sets[pod_set_of(role)] for role in Role if pod_set_of(role) in pod_sets}


def workload_change(
    view: JobView,
    job: TFDistJob,
    installation: Installation,
    now: datetime,
    records: Records,
    *,
    outdated: bool,
    all_run: bool,
) -> WorkloadChange | None:
    """Return the change of the Workload of a job that has not finished; None for no change.

    Args:
        view: the observed state.
        job: its valid specification.
        installation: settings of the installation.
        now: the time.
        records: of its gangs after the plan.
        outdated: the result of `has_outdated_workload`.
        all_run: whether all replicas of the current gang run.
    """
    if view.kueue is None:
        return None
    summary = view.kueue.workload
    # A suspended job must not hold quota, but its pods use it until they have ended.
    if not uses_kueue(view, job) or job.spec.run_policy.suspend:
        return WorkloadChange(delete=True) if summary and not summary.deleting and not _uses_resources(view) else None
    if summary is not None and summary.deleting:
        return None
    # Kueue accepts no other pod sets while quota is reserved: a new Workload asks for them (ADR 38).
    if summary is not None and (summary.finished or (outdated and not _uses_resources(view))):
        return WorkloadChange(delete=True)
    desired = None if view.problems else workload(job, installation)
    ended: Mapping[str, int] = {}
    if desired and summary and summary.spec_hash == _spec_hash(desired):
        ended = reclaimable_pods(view, job, desired, stored_records(view.status), records)
    if summary is None or not summary.holds_quota:
        return _pending_change(desired, summary, ended) if desired else None
    # The quota is released only after the last pod: Kueue would give its nodes away too early (ADR 38).
    if summary.evicted:
        return None if _uses_resources(view) else WorkloadChange(status=_released_status(summary, now, ended))
    readiness = _readiness_change(summary, now, all_run=all_run)
    # the priority last: a class that does not exist keeps no other change back
    return readiness or _reclaim_change(summary, ended) or (_priority_change(desired, summary) if desired else None)


def _reclaim_change(summary: WorkloadSummary, ended: Mapping[str, int]) -> WorkloadChange | None:
    """Return the change that releases the quota of pods that have ended; Kueue rejects a lower number."""
    stored = summary.reclaimable()
    counts = stored | {name: max(count, stored.get(name, 0)) for name, count in ended.items()}
    return None if counts == stored else WorkloadChange(status=reclaimable_status(counts))


def _priority_change(desired: Manifest, summary: WorkloadSummary) -> WorkloadChange | None:
    """Return the change of the priority of an admitted Workload; None if it has the class of its job."""
    return None if summary.priority_class == _class_of(desired) else WorkloadChange(manifest=desired)


def _pending_change(
    desired: Manifest, summary: WorkloadSummary | None, ended: Mapping[str, int]
) -> WorkloadChange | None:
    """Return the change that brings a Workload without quota to its desired state; None if it is current.

    It requests less by what has ended. That is taken back before other pod sets, for which it may be too many.
    """
    if summary is None:
        return WorkloadChange(manifest=desired)
    stored = summary.reclaimable()
    # Kueue rejects reclaimable pods above the count of their pod set, hence first without any.
    if summary.spec_hash != _spec_hash(desired) and stored:
        return WorkloadChange(status=reclaimable_status({}))
    if (summary.spec_hash, summary.priority_class) != (_spec_hash(desired), _class_of(desired)):
        return WorkloadChange(manifest=desired)
    return None if stored == ended else WorkloadChange(status=reclaimable_status(ended))


def finished_workload(view: JobView, now: datetime) -> WorkloadChange | None:
    """Return the change that releases the quota of a finished job, once its pods have ended."""
    summary = view.kueue.workload if view.kueue else None
    if summary is None or summary.finished or summary.deleting or _uses_resources(view):
        return None
    succeeded = is_true(view.status, ConditionType.SUCCEEDED)
    text = (view.status.summary.message if view.status.summary else None) or "the job has finished"
    condition = _condition("Finished", True, "Succeeded" if succeeded else "Failed", text, now)
    return WorkloadChange(status={"conditions": _merged_conditions(summary, [condition])})


def _released_status(summary: WorkloadSummary, now: datetime, ended: Mapping[str, int]) -> dict[str, Any]:
    """Return the status that puts an evicted Workload back into its queue, at its former position.

    It requests quota for all but the pods that have `ended` for good.

    Kueue sets `Requeued` to True when the reason of the eviction is over, except for preemptions and node failures.
    """
    evicted = summary.condition("Evicted")
    reason, text = str(evicted.get("reason")), str(evicted.get("message"))
    requeued = reason in {"Preempted", "NodeFailures"}
    conditions = [
        _condition("QuotaReserved", False, "Pending", text, now),
        _condition("Admitted", False, "NoReservation", "The workload has no reservation", now),
        _condition("PodsReady", False, "WaitForStart", _NOT_READY, now),
        _condition("Requeued", requeued, reason, text, now),
    ]
    merged = _merged_conditions(summary, conditions)
    return {"admission": None, "conditions": merged, **reclaimable_status(ended)}


def _readiness_change(summary: WorkloadSummary, now: datetime, *, all_run: bool) -> WorkloadChange | None:
    """Return the change of `PodsReady`, the condition that Kueue's `waitForPodsReady` evaluates."""
    pods_ready = summary.condition("PodsReady")
    if (pods_ready.get("status") == "True") == all_run:
        return None
    recovers = pods_ready.get("reason") in {"WaitForRecovery", "Recovered", "Started"}
    if all_run:
        reason = "Recovered" if recovers else "Started"
        condition = _condition("PodsReady", True, reason, "all pods run", now)
    else:
        condition = _condition("PodsReady", False, "WaitForRecovery", _NOT_READY, now)
    return WorkloadChange(status={"conditions": _merged_conditions(summary, [condition])})


def _condition(kind: str, status: bool, reason: str, message: str, now: datetime) -> dict[str, Any]:
    return {
        "type": kind,
        "status": str(status),
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(now),
    }


def _merged_conditions(summary: WorkloadSummary, changes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return all conditions of a Workload, the changed ones last: a merge patch replaces the whole list."""
    kinds = {condition["type"] for condition in changes}
    return [*(c for c in summary.status.get("conditions", ()) if c["type"] not in kinds), *changes]


def _uses_resources(view: JobView) -> bool:
    """Return whether a pod of the job uses resources."""
    return any(not pod.ended or pod.sidecars_run for pod in view.pods)


def reclaimable_status(counts: Mapping[str, int]) -> Manifest:
    """Return the merge patch of a Workload's status that stores such counts."""
    return {"reclaimablePods": [{"name": name, "count": count} for name, count in counts.items()] or None}


def reclaimable_pods(view: JobView, job: TFDistJob, desired: Manifest, *records: Records) -> dict[str, int]:
    """Return how many pods of each pod set have ended for good, without those that have none.

    Args:
        view: the observed state.
        job: its valid specification.
        desired: the Workload that it must have.
        records: of its gangs, from the status and from a plan. A replica that is complete by only one of them
            may run again, since a controller that is killed leaves the other.
    """
    # The most careful of all records: quota that is released comes back only with another admission.
    needed = _pods_in_use(view)
    for known in records:
        needed |= _pods_to_run(view, job, known)
    ended = {str(s["name"]): s["count"] - needed[s["name"]] for s in desired["spec"]["podSets"]}
    return {name: count for name, count in ended.items() if count > 0}


def lacks_quota(view: JobView, job: TFDistJob, desired: Manifest, summary: WorkloadSummary, records: Records) -> bool:
    """Return whether pods may run again whose quota was released."""
    released = summary.reclaimable()
    if not released:
        return False
    needed = _pods_to_run(view, job, records)
    return any(needed[s["name"]] > s["count"] - released.get(s["name"], 0) for s in desired["spec"]["podSets"])


def _pods_in_use(view: JobView) -> Counter[str]:
    return Counter(pod_set_of(pod.role) for pod in view.pods if not pod.ended or pod.sidecars_run)


def _pods_to_run(view: JobView, job: TFDistJob, records: Records) -> Counter[str]:
    """Return how many pods of each pod set run now or may run later; gangs that share a pod set follow each other."""
    needed: Counter[str] = Counter()
    for gang in gangs(job):
        needed |= Counter(_roles_to_run(view, job, gang, records.get(gang.name, GangStatus())))
    return needed


def _roles_to_run(view: JobView, job: TFDistJob, gang: Gang, record: GangStatus) -> Iterable[str]:
    """Return the pod sets of the replicas of a gang that may still run.

    Training that has succeeded never starts again. Before that, only independent replicas stay complete when another
    one fails.
    """
    if gang.name is GangName.TRAINING and training_succeeded(view.status):
        return ()
    stays_complete = gang.name is GangName.TRAINING and job.spec.strategy is Strategy.INDEPENDENT
    completed = record.completed if stays_complete else frozenset()
    return (pod_set_of(member.role) for member in gang.members if member.name not in completed)
