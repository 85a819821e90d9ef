"""After the end: pods, Service and NetworkPolicy go as `cleanPodPolicy` says, TensorBoard, and at last the job."""

from datetime import datetime

from tfdist.api.status import ConditionType
from tfdist.render.gang import GangName
from tfdist_operator.observed.pod import PodSummary
from tfdist_operator.observed.record import stored_record
from tfdist_operator.observed.view import JobView
from tfdist_operator.planner import tensorboard
from tfdist_operator.planner.past import past_pods, surplus
from tfdist_operator.planner.plan import Plan, Settings
from tfdist_operator.planner.retell import ending
from tfdist_operator.planner.step import earliest
from tfdist_operator.status.clock import parse_time
from tfdist_operator.status.conditions import is_true


def after_the_end(view: JobView, now: datetime, settings: Settings) -> Plan:
    """Return what is left to do for a job that has ended; its status never changes again."""
    age = (now - _ended_at(view)).total_seconds()
    ttl = view.job.spec.run_policy.ttl_seconds_after_finished if view.job else None
    if ttl is not None and age >= ttl:
        return Plan(delete_job=True)
    shown = tensorboard.outlives(view, age)
    wait = earliest([None if ttl is None else ttl - age, shown or None])
    events = ending(view, now)
    unwanted = [p for p in _unwanted(view) if not p.deleting]
    settle = settings.settle_seconds if is_true(view.status, ConditionType.SUCCEEDED) else 0.0
    if unwanted and age < settle:  # the others get time to end by themselves
        return Plan(events=events, requeue_after_seconds=earliest([wait, settle - age]))
    sweep = not view.pods and not view.swept
    return Plan(
        deletes=tuple(p.name for p in unwanted),
        sweep=sweep,
        remove_tensorboard=shown == 0.0,
        events=events,
        requeue_after_seconds=wait,
    )


def _ended_at(view: JobView) -> datetime:
    """Return when the job ended; of a status that somebody has written by hand the newest of its conditions."""
    moments = [c["lastTransitionTime"] for c in view.status["conditions"]]
    return parse_time(view.status.get("completionTime") or max(moments))


def _unwanted(view: JobView) -> list[PodSummary]:
    policy = view.job.spec.run_policy.clean_pod_policy if view.job else "Running"
    if policy == "All":
        return list(view.pods)
    unfinished = [] if policy == "None" else [p for p in view.pods if not p.ended]
    return [*unfinished, *_surplus(view)]


def _surplus(view: JobView) -> list[PodSummary]:
    if view.job is None:
        return []
    known = {gang: record for gang in GangName if (record := stored_record(view.status, gang))}
    return surplus(view.job, view.status, past_pods(view.job, known, view.pods))
