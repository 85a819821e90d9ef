"""Converts limits, clean-up, success policy and scheduling."""

from typing import Final

from tfdist.convert.result import AddNote, CannotConvert, Json
from tfdist.convert.tfjob import SchedulingPolicy, TFJobRunPolicy
from tfdist.validation import FieldError

MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"

NOT_SUPPORTED: Final = "not supported by this version of TFDist"
"""As in `tfdist.api.features`, which rejects the field that it would become."""
_TRAINING_OPERATOR: Final = "kubeflow.org/training-operator"
_PATH: Final = "spec.runPolicy"


def run_policy(policy: TFJobRunPolicy, limit: int | None, add_note: AddNote) -> Json:
    """Return `runPolicy` with `limit` as its `backoffLimit`.

    Raises:
        CannotConvert: `managedBy` names a controller that the training-operator does not know.
    """
    result: Json = {"suspend": True} if policy.suspend else {}
    active, ttl = policy.active_deadline_seconds, policy.ttl_seconds_after_finished
    if limit is not None:
        result["backoffLimit"] = limit
    if active is not None:
        result["activeDeadlineSeconds"] = max(active, 1)
        change = f"{active} became 1, the minimum; " if active < 1 else ""
        text = f"{change}takes effect at once now, not at the next event, and does not count while suspended"
        add_note(f"{_PATH}.activeDeadlineSeconds", text)
    result["cleanPodPolicy"] = _clean_pod_policy(policy.clean_pod_policy, add_note)
    if ttl is not None:
        result["ttlSecondsAfterFinished"] = max(ttl, 0)
        if ttl < 0:
            add_note(f"{_PATH}.ttlSecondsAfterFinished", f"{ttl} became 0: the job is deleted at once")
    return result | _managed_by(policy.managed_by, add_note)


def _clean_pod_policy(value: str | None, add_note: AddNote) -> str:
    path = f"{_PATH}.cleanPodPolicy"
    if value is None:
        add_note(path, "None, the default of a TFJob, is written, because TFDist's default is Running")
        return "None"
    if value not in {"All", "Running", "None"}:
        add_note(path, f"{value!r} is unknown, which a TFJob treats as All; All is written")
        return "All"
    return value


def _managed_by(value: str | None, add_note: AddNote) -> Json:
    path = f"{_PATH}.managedBy"
    if value is None:
        return {}
    if value == _TRAINING_OPERATOR:
        add_note(path, "dropped: a TFDistJob without managedBy is managed by TFDist")
        return {}
    if value != MULTIKUEUE:
        raise CannotConvert([FieldError(path, f"{value!r} is not one of {_TRAINING_OPERATOR}, {MULTIKUEUE}")])
    add_note(path, "kept: TFDist leaves the job to that controller, which must support TFDistJobs")
    return {"managedBy": value}


def success_policy(value: str, *, has_chief: bool, add_note: AddNote) -> str | None:
    """Return `successPolicy`, or None for the default: the success of the chief, or of worker 0 without a chief."""
    path = "spec.successPolicy"
    if value == "AllWorkers" and has_chief:
        add_note(path, "dropped: a TFJob with a chief ignores it; write successPolicy: AllWorkers to wait for all")
        return None
    if value not in {"", "AllWorkers"}:
        add_note(path, f"{value!r} is unknown, which a TFJob treats as the default; dropped")
        return None
    return value or None


def note_dynamic_workers(add_note: AddNote) -> None:
    """Add a note that the number of workers of a TFJob with `enableDynamicWorker` is fixed in this version."""
    text = f"dropped: elastic is {NOT_SUPPORTED}; to change the number of workers, suspend the job, change it, resume"
    add_note("spec.enableDynamicWorker", text)


def scheduling(policy: SchedulingPolicy, gang: str | None, gang_size: int, add_note: AddNote) -> Json:
    """Return `scheduling`.

    Args:
        policy: the TFJob's scheduling policy.
        gang: `scheduling.gang`; None for the default.
        gang_size: number of replicas that train.
        add_note: adds a note to the result.
    """
    path = f"{_PATH}.schedulingPolicy"
    if policy.queue and gang != "Volcano":
        add_note(f"{path}.queue", "dropped: the scheduler that the pods name has no queues; the job is not queued")
    if policy.min_resources:
        add_note(f"{path}.minResources", "dropped: the scheduler sees the resource requests of the pods")
    result = {
        "gang": gang,
        "queue": policy.queue if gang == "Volcano" else None,
        "priorityClassName": policy.priority_class,
        "minAvailable": _min_available(policy.min_available, gang_size, add_note),
        "timeoutSeconds": _timeout_seconds(policy.schedule_timeout_seconds, add_note),
    }
    return {name: value for name, value in result.items() if value}


def _min_available(value: int | None, gang_size: int, add_note: AddNote) -> int | None:
    """Return `minAvailable`; None for the default, all replicas that train."""
    if value is None or value == gang_size:
        return None
    path = f"{_PATH}.schedulingPolicy.minAvailable"
    if value > gang_size:
        add_note(path, f"dropped: {value} is more than the {gang_size} replicas that train, which is the default")
        return None
    if value < 1:
        add_note(path, "dropped: it is at least 1")
        return None
    return value


def _timeout_seconds(value: int | None, add_note: AddNote) -> int | None:
    if value is not None and value < 1:
        add_note(f"{_PATH}.schedulingPolicy.scheduleTimeoutSeconds", "dropped: it is at least 1")
        return None
    return value
