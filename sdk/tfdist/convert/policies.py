"""Limits, clean-up, success, scheduling and elasticity."""

from typing import Final

from tfdist.contract import Role
from tfdist.convert.replicas import Replicas
from tfdist.convert.result import CannotConvert, Json, Remark
from tfdist.convert.strategy import CUSTOM
from tfdist.convert.tfjob import RunPolicy, SchedulingPolicy
from tfdist.validation import Problem
from tfdist.validation.wording import path_of

MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
KUEUE_QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"

_PEER: Final = "kubeflow.org/training-operator"
_PATH: Final = "spec.runPolicy"


def run_policy(given: RunPolicy, limit: int | None, remark: Remark) -> Json:
    """Return `runPolicy` with `limit` as its `backoffLimit`.

    Raises:
        CannotConvert: the job is managed by a controller that the peer does not know.
    """
    made: Json = {"suspend": True} if given.suspend else {}
    active, ttl = given.active_deadline_seconds, given.ttl_seconds_after_finished
    if limit is not None:
        made["backoffLimit"] = limit
    if active is not None:
        made["activeDeadlineSeconds"] = max(active, 1)
        less = f"{active} became 1, the least there is; " if active < 1 else ""
        remark(f"{_PATH}.activeDeadlineSeconds", f"{less}fires by itself now, and does not count while suspended")
    made["cleanPodPolicy"] = _clean_pod_policy(given.clean_pod_policy, remark)
    if ttl is not None:
        made["ttlSecondsAfterFinished"] = max(ttl, 0)
        if ttl < 0:
            remark(f"{_PATH}.ttlSecondsAfterFinished", f"{ttl} became 0: the job is deleted at once")
    return made | _managed_by(given.managed_by, remark)


def _clean_pod_policy(given: str | None, remark: Remark) -> str:
    path = f"{_PATH}.cleanPodPolicy"
    if given is None:
        remark(path, "None is the default of a TFJob and is written, because TFDist's is Running")
        return "None"
    if given not in {"All", "Running", "None"}:
        remark(path, f"{given!r} is unknown, which a TFJob takes for All; All is written")
        return "All"
    return given


def _managed_by(given: str | None, remark: Remark) -> Json:
    path = f"{_PATH}.managedBy"
    if given is None:
        return {}
    if given == _PEER:
        remark(path, "dropped: TFDist manages its jobs without being named")
        return {}
    if given != MULTIKUEUE:
        raise CannotConvert([Problem(path, f"{given!r} is none of {_PEER}, {MULTIKUEUE}")])
    remark(path, "kept: TFDist leaves the job to that controller, which has to know TFDistJobs")
    return {"managedBy": given}


def success_policy(given: str, *, has_chief: bool, remark: Remark) -> str | None:
    """Return `successPolicy`, or None for the default: the chief's success is the job's, else that of worker 0."""
    path = "spec.successPolicy"
    if given == "AllWorkers" and has_chief:
        remark(path, "dropped: beside a chief a TFJob ignores it; write successPolicy: AllWorkers to wait for all")
        return None
    if given not in {"", "AllWorkers"}:
        remark(path, f"{given!r} is unknown, which a TFJob takes for the default; dropped")
        return None
    return given or None


def elastic(workers: Replicas | None, strategy: str, remark: Remark) -> Json | None:
    """Return `elastic` for a TFJob with dynamic workers, or None where nothing can come and go."""
    path = "spec.enableDynamicWorker"
    if workers is None:
        remark(path, "dropped: there are no workers")
        return None
    if strategy == CUSTOM:
        remark(path, "dropped: without knowing how the program distributes its work, TFDist cannot change its size")
        return None
    text = (
        "became elastic: when workers are lost or scaled, the job goes on from its last checkpoint as a new attempt of "
        "another size; every replica's TF_CONFIG names all replicas, where a TFJob gives each worker its own part"
    )
    remark(path, text)
    return {"minWorkers": 1, "maxWorkers": workers.count}


def scheduling(given: SchedulingPolicy, kueue_queue: str, gang_size: int, remark: Remark) -> Json:
    """Return `scheduling`.

    Args:
        given: the TFJob's scheduling policy.
        kueue_queue: the queue that a label of the TFJob names for Kueue, or nothing.
        gang_size: number of replicas that train; TFDist's gang is without the evaluator.
        remark: takes the notes.
    """
    path = f"{_PATH}.schedulingPolicy"
    made: Json = {}
    if kueue_queue:
        made |= {"gang": "Kueue", "queue": kueue_queue}
        remark(path_of(["metadata", "labels", KUEUE_QUEUE_LABEL]), "became scheduling.gang: Kueue and scheduling.queue")
        if given.queue:
            remark(f"{path}.queue", f"dropped: the label for Kueue names the queue, {kueue_queue}")
    elif given.queue:
        made["queue"] = given.queue
    if given.priority_class:
        made["priorityClassName"] = given.priority_class
    made |= _amounts(given, gang_size, path, remark)
    if given.min_resources:
        remark(f"{path}.minResources", "dropped: TFDist asks for what the pods of the gang request")
    return made


def _amounts(given: SchedulingPolicy, gang_size: int, path: str, remark: Remark) -> Json:
    made: Json = {}
    least, timeout = given.min_available, given.schedule_timeout_seconds
    if least is not None:
        made["minAvailable"] = min(max(least, 1), gang_size)
        if made["minAvailable"] != least:
            text = f"{least} became {made['minAvailable']}: the gang has {gang_size} replicas, without the evaluator"
            remark(f"{path}.minAvailable", text)
    if timeout is not None and timeout > 0:
        made["timeoutSeconds"] = timeout
    elif timeout is not None:
        remark(f"{path}.scheduleTimeoutSeconds", f"dropped: {timeout} is no time to wait")
    return made


def gang_size(replicas: dict[Role, Replicas]) -> int:
    """Return the number of replicas that train."""
    return sum(r.count for r in replicas.values() if r.role is not Role.EVALUATOR)
