"""Plans a finished job: what its status still reports, and what is deleted, down to the job itself by its TTL.

A changed specification has no effect, since a finished job never runs again, and the terminal condition says so. A
worker that fails after training sets `Degraded`: `successPolicy: Chief` does not ask for the other workers, and nothing
else names their error. Pods, Service, NetworkPolicy and TensorBoard go by cleanPodPolicy and their own TTL.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from tfdist.api.status import ConditionType, JobCondition, Summary, TFDistJobStatus
from tfdist.api.v1 import TFDistJob
from tfdist.desired.objects import obsolete_after_end, obsolete_pod_groups
from tfdist.desired.pods import pods_to_prune, sidecar_patches, stale_pods
from tfdist.failure_classification import (
    APPLICATION_ERROR,
    OUT_OF_MEMORY,
    USER_ERROR,
    Action,
    classify,
    may_have_lost_peer,
)
from tfdist.messages import count
from tfdist.observed.gang_record import stored_record, stored_records
from tfdist.observed.gang_state import COUNTED_ROLES, gang_state
from tfdist.observed.job_view import JobView
from tfdist.observed.pod import PodState, PodSummary
from tfdist.observed.termination import describe_failure
from tfdist.outcome import find_condition, read_status
from tfdist.planner.kueue import finished_workload
from tfdist.planner.plan import Event, Plan, min_delay
from tfdist.reasons import ConditionReason, EventReason
from tfdist.render.gang import GangName, gangs
from tfdist.status.accounts import with_final_usage
from tfdist.status.conditions import Condition, is_true, merge
from tfdist.status.counts import final_counts
from tfdist.status.phase import is_terminal
from tfdist.timestamps import parse_time, rfc3339


def clean_up_finished_job(view: JobView, now: datetime, settle_seconds: float) -> Plan:
    """Return the plan of a finished job.

    Three parts of its status can change: `replicas`, until all pods have ended, the condition of a worker that fails
    after training, and the message of the terminal condition, after a change of the specification.
    """
    # The policies of an invalid job are read from its valid fields.
    view = view if view.job else view.with_job(view.stored.partial)
    changed_status, change_events = report_unused_change(view, rfc3339(now))
    view = replace(view, status=changed_status or view.status)
    degraded_status, failure_events = report_failure_after_training(view, rfc3339(now))
    changed_status, events = degraded_status or changed_status, (*change_events, *failure_events)
    view = replace(view, status=changed_status or view.status)
    age = (now - _ended_at(view)).total_seconds()
    ttl = view.job.spec.run_policy.ttl_seconds_after_finished if view.job else None
    # The deletion of the job deletes all its objects: nothing else is planned.
    if ttl is not None and age >= ttl:
        return Plan(delete_job=True)
    tensorboard_seconds = _tensorboard_seconds(view, age)
    wait = min_delay([None if ttl is None else ttl - age, tensorboard_seconds or None])
    deletable = [p for p in _pods_to_delete(view) if not p.deleting]
    final_status = with_final_usage(_final_counts(view, age >= settle_seconds) or changed_status, view, now)
    status = final_status.to_json() if final_status else None
    patches = tuple(sidecar_patches(view.pods, [p.name for p in deletable]))
    settle = settle_seconds if is_true(view.status, ConditionType.SUCCEEDED) else 0.0
    name = view.job.metadata.name if view.job else view.stored.name
    # Only after a success; the replicas of a failed job are stopped at once.
    if deletable and age < settle:  # the other replicas have time to end by themselves
        delay = min_delay([wait, settle - age])
        return Plan(status=status, patches=patches, events=events, requeue_after_seconds=delay)
    return Plan(
        status=status,
        patches=patches,
        deletes=tuple(p.name for p in deletable),
        obsolete=(
            *obsolete_after_end(name, pods_exist=bool(view.pods), tensorboard_expired=tensorboard_seconds == 0.0),
            *(obsolete_pod_groups(name, stored_records(view.status), ()) if all(p.ended for p in view.pods) else ()),
        ),
        workload=finished_workload(view, now),
        events=events,
        requeue_after_seconds=wait,
    )


def _final_counts(view: JobView, settled: bool) -> TFDistJobStatus | None:
    """Return the status with the final `replicas`; None if they are stored already, or not final yet."""
    stored = view.status.replicas
    if view.job is None or stored is None or (not settled and not all(p.ended for p in view.pods)):
        return None
    stale = {p.name for p in _stale(view, view.job)}
    replicas = final_counts(stored, [p for p in view.pods if p.name not in stale])
    return view.status.model_copy(update={"replicas": replicas}) if replicas != stored else None


def _tensorboard_seconds(view: JobView, age: float) -> float | None:
    """Return the remaining seconds of the TensorBoard, for a job that finished `age` ago; None for an invalid job."""
    if view.job is None:
        return None
    board = view.job.spec.tensor_board
    return 0.0 if board is None else max(0.0, board.ttl_seconds_after_finished - age)


def _ended_at(view: JobView) -> datetime:
    """Return when the job finished; for a status that was written by hand, the time of its newest condition."""
    moments = [condition.last_transition_time for condition in view.status.conditions or ()]
    return parse_time(view.status.completion_time or max(moments))


def _pods_to_delete(view: JobView) -> list[PodSummary]:
    policy = view.job.spec.run_policy.clean_pod_policy if view.job else "Running"
    if policy == "All":
        return list(view.pods)
    unfinished = [] if policy == "None" else [p for p in view.pods if not p.ended]
    return [*unfinished, *_prunable(view)]


def _prunable(view: JobView) -> list[PodSummary]:
    if view.job is None:
        return []
    return pods_to_prune(view.job, view.status, _stale(view, view.job))


def _stale(view: JobView, job: TFDistJob) -> list[PodSummary]:
    return stale_pods(gangs(job), stored_records(view.status), view.pods)


DELETE_FIRST: Final = "delete the job first, and create it again (kubectl replace --force -f FILE)"
_CHANGED: Final = "; the specification of generation "


def report_unused_change(view: JobView, now: str) -> tuple[TFDistJobStatus | None, tuple[Event, ...]]:
    """Return the status that reports a change after the end, with its event; (None, ()) if none is new.

    The message of the terminal condition gets the remedy: users who applied a corrected manifest read it.
    """
    observed = view.status.observed_generation
    if observed is None or view.generation <= observed:
        return None, ()
    kind = ConditionType.FAILED if is_true(view.status, ConditionType.FAILED) else ConditionType.SUCCEEDED
    stored = find_condition(view.status, kind)
    if stored is None:
        return None, ()
    text = f"the specification of generation {view.generation} does not run, because the job has finished: "
    text += DELETE_FIRST
    end_message = stored.message.partition(_CHANGED)[0]
    condition = Condition(kind, True, stored.reason, f"{end_message}; {text}")
    conditions = merge(view.status.conditions or (), (condition,), JobCondition, view.generation, now)
    summary = (view.status.summary or Summary()).model_copy(update={"message": f"{end_message}; {text}"})
    changes = {"conditions": conditions, "observed_generation": view.generation, "summary": summary}
    event = Event(EventReason.CHANGE_NOT_APPLIED, text, warning=True, identity=str(view.generation))
    return view.status.model_copy(update=changes), (event,)


def unused_change_warning(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return the admission warning about a change of a finished job; "" for any other change."""
    status = old.get("status")
    finished = isinstance(status, Mapping) and is_terminal(read_status(status))
    if not finished or old.get("spec") == new.get("spec"):
        return ""
    return f"spec: does not run, because the job has finished: {DELETE_FIRST}"


_OWN_ERRORS: Final = frozenset({APPLICATION_ERROR, USER_ERROR, OUT_OF_MEMORY})
"""Reasons of a failure that is not the end of the leader: TensorFlow may crash when its peers have left."""
_BEGINS: Final = "training succeeded; after it "


def report_failure_after_training(view: JobView, now: str) -> tuple[TFDistJobStatus | None, tuple[Event, ...]]:
    """Return the status of a job that succeeded with the failure of a worker, and the event; (None, ()) if none is new.

    The message is appended to a condition `Degraded` that has another reason.
    """
    stored = find_condition(view.status, ConditionType.DEGRADED)
    degraded = stored if stored is not None and stored.status == "True" else None
    if not is_true(view.status, ConditionType.SUCCEEDED) or (degraded and _BEGINS in degraded.message):
        return None, ()
    failed = _failed_workers(view)
    if not failed:
        return None, ()
    others = f", and {count(len(failed) - 1, 'other worker')} failed" if len(failed) > 1 else ""
    text = f"{_BEGINS}{describe_failure(failed[0])}{others}"
    reason = degraded.reason if degraded else ConditionReason.FAILED_AFTER_TRAINING
    message = f"{degraded.message}; {text}" if degraded else text
    condition = Condition(ConditionType.DEGRADED, True, reason, message)
    conditions = merge(view.status.conditions or (), (condition,), JobCondition, view.generation, now)
    event = Event(EventReason.FAILED_AFTER_TRAINING, text, warning=True, identity=str(failed[0].attempt))
    return view.status.model_copy(update={"conditions": conditions}), (event,)


def _failed_workers(view: JobView) -> list[PodSummary]:
    """Return the workers that failed by an error of their own, the first one first."""
    record = stored_record(view.status, GangName.TRAINING)
    if view.job is None or record is None or all(p.state is not PodState.FAILED for p in view.pods):
        return []
    policy = view.job.spec.failure_policy
    gang = next(gang for gang in gangs(view.job) if gang.name is GangName.TRAINING)
    state = gang_state(gang, record, view.pods)
    workers = (p for p in state.failed_or_terminating if p.role in COUNTED_ROLES and p.ended and not p.deleting)
    kinds = ((p, classify(p), classify(p, policy).action) for p in workers)
    own = [p for p, kind, action in kinds if kind.reason in _OWN_ERRORS and action is not Action.IGNORE]
    return sorted((p for p in own if not may_have_lost_peer(p)), key=lambda p: (p.finished_at, p.index))
