"""Which pods of an admitted job have ended for good, so that Kueue gives their quota to other jobs.

While quota is reserved, Kueue accepts no lower number (kueue, `workload_webhook.go`): what has been released comes back
only with another admission. Replicas that a restart may run again are therefore never released.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from tfdist.api.gang_status import GangStatus
from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.observed.job_view import JobView
from tfdist.observed.kueue import WorkloadSummary
from tfdist.render.gang import Gang, GangName, gangs
from tfdist.render.metadata import Manifest
from tfdist.render.workload import pod_set_of
from tfdist.status.phase import training_succeeded

Records = Mapping[GangName, GangStatus]


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
