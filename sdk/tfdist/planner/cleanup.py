"""Cleans up a finished job: pods, Service and NetworkPolicy by cleanPodPolicy, TensorBoard, and the job by its TTL."""

from dataclasses import replace
from datetime import datetime

from tfdist.api.status import ConditionType, TFDistJobStatus
from tfdist.api.v1 import TFDistJob
from tfdist.desired.objects import obsolete_after_end, obsolete_pod_groups
from tfdist.desired.pods import pods_to_prune, sidecar_patches, stale_pods
from tfdist.observed.gang_record import stored_records
from tfdist.observed.job_view import JobView
from tfdist.observed.pod import PodSummary
from tfdist.planner.decision import min_delay
from tfdist.planner.failed_after_training import report_failure_after_training
from tfdist.planner.finished_job import report_unused_change
from tfdist.planner.kueue import finished_workload
from tfdist.planner.plan import Plan
from tfdist.render.gang import gangs
from tfdist.status.accounts import with_final_usage
from tfdist.status.conditions import is_true
from tfdist.status.counts import final_counts
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
