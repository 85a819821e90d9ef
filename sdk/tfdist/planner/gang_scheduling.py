"""The gang scheduler of a job: which one starts its gangs, the objects that it needs, and what it waits for."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from tfdist.api.gang_status import SchedulingStatus
from tfdist.api.gang_system import Availability, GangSystem
from tfdist.api.status import Progress
from tfdist.desired.pods import Patch, checkpoint_patch
from tfdist.observed.gang_state import GangState
from tfdist.observed.job_view import JobView
from tfdist.observed.pod import PodState
from tfdist.planner.context import PlanContext
from tfdist.planner.kueue import kueue_status, missing_reason, uses_kueue
from tfdist.planner.plan import GangFailure
from tfdist.reasons import ConditionReason
from tfdist.render.gang import Gang, GangName
from tfdist.render.metadata import Manifest
from tfdist.scheduling.choice import GANG_SCHEDULERS, choose, no_queues, scheduler_of
from tfdist.scheduling.gang_scheduler import GangScheduler
from tfdist.scheduling.kueue import KUEUE


def missing_scheduler(context: PlanContext, state: GangState) -> GangFailure | None:
    """Return why a gang cannot start: its gang scheduler is not installed, or not known to be; None if it is.

    A gang that has started continues without it. With `gang: Volcano`, validation rejects any other `schedulerName`.
    Without Kueue no pod is created, since nothing can admit the job.
    """
    if text := missing_reason(context.view, context.job):
        return GangFailure(_reason(context, KUEUE.system), text)
    scheduler = starting_scheduler(context, state.gang)
    if state.pods or scheduler is None:
        return None
    if name := scheduler.excluded_scheduler(context.job, state.gang):
        queues = f"{scheduler.system}'s queues"
        text = f"scheduling.queue: schedulerName {name} keeps the pods out of {queues}; remove one of the two"
        return GangFailure(ConditionReason.GANG_SCHEDULER_MISSING, text)
    scheduling, availability = context.spec.scheduling, context.view.availability(scheduler.system)
    text = scheduler.unavailable(availability)
    if availability is Availability.ABSENT and scheduling.gang == "Auto":
        text = no_queues(scheduling.queue or "")
    return GangFailure(_reason(context, scheduler.system), text) if text else None


def _reason(context: PlanContext, system: GangSystem) -> ConditionReason:
    is_unknown = context.view.availability(system) is Availability.UNKNOWN
    return ConditionReason.GANG_SCHEDULER_UNKNOWN if is_unknown else ConditionReason.GANG_SCHEDULER_MISSING


def starting_scheduler(context: PlanContext, gang: Gang) -> GangScheduler | None:
    """Return the gang scheduler of the pods of a gang that starts now: one that is served, or that may be."""
    systems = {system for system in GANG_SCHEDULERS if context.view.availability(system) is not Availability.ABSENT}
    if uses_kueue(context.view, context.job):
        systems.add(KUEUE.system)
    return choose(context.job, gang, context.installation, systems)


def pod_groups(
    context: PlanContext, states: Iterable[GangState], creates: Collection[GangName]
) -> tuple[Manifest, ...]:
    """Return the PodGroups that must exist, also of a kind that the API server does not serve now.

    Args:
        context: of the job.
        states: its gangs.
        creates: the gangs of which a pod is created now.
    """
    return tuple(
        scheduler.pod_group(
            context.specification_of(state) or context.job,
            state.gang,
            state.record.last_full_restart,
            context.installation,
            countable_members=state.countable_members,
            retries=_retries(context, state, scheduler),
        )
        for state in states
        if state.gang.name in creates or any(not p.ended for p in state.pods)
        if (scheduler := scheduler_of(state.record))
    )


def served(view: JobView, groups: Iterable[Manifest]) -> Iterator[Manifest]:
    """Yield the PodGroups whose kind the API server serves."""
    kinds = {s.kind.api_version for s in GANG_SCHEDULERS.values() if view.availability(s.system) is Availability.SERVED}
    return (group for group in groups if group["apiVersion"] in kinds)


def seconds_until_retry(context: PlanContext, states: Iterable[GangState]) -> float | None:
    """Return when the scheduler of a gang is to consider it again; None if it does so by itself."""
    remaining = (
        interval - waited % interval
        for state in states
        if (scheduler := scheduler_of(state.record)) and (interval := _retry_seconds(context, scheduler))
        if (waited := _seconds_without_node(context, state))
    )
    return min(remaining, default=None)


def _retries(context: PlanContext, state: GangState, scheduler: GangScheduler) -> int:
    """Return how often the scheduler of a gang that waits for nodes is to have considered it again."""
    interval = _retry_seconds(context, scheduler)
    return int(_seconds_without_node(context, state) // interval) if interval else 0


def _retry_seconds(context: PlanContext, scheduler: GangScheduler) -> float | None:
    return scheduler.retry_seconds(context.job) if scheduler.retry_seconds else None


def _seconds_without_node(context: PlanContext, state: GangState) -> float:
    """Return for how long a gang has waited for nodes; 0 if it does not wait."""
    waiting = (p.created_at for p in state.pods if p.state is PodState.PENDING and not p.node and not p.deleting)
    return max((context.seconds_since(created_at) for created_at in waiting if created_at), default=0.0)


def scheduling_status(context: PlanContext, states: Mapping[GangName, GangState]) -> SchedulingStatus | None:
    """Return `status.scheduling` of the gang that was started last; None if it is a single replica in no queue."""
    state = states.get(GangName.EVALUATION) or states.get(GangName.TRAINING)
    if uses_kueue(context.view, context.job):
        status = kueue_status(context.view, context.job)
        return _with_wait(context, state, status) if status else None
    if state is None:
        return context.view.status.scheduling
    scheduler = scheduler_of(state.record)
    if len(state.gang.members) == 1 and scheduler is None:
        return None
    queue = scheduler.queue(context.job) if scheduler and scheduler.queue else None
    return _with_wait(context, state, SchedulingStatus(system=state.record.system, queue=queue))


def _with_wait(context: PlanContext, state: GangState | None, status: SchedulingStatus) -> SchedulingStatus:
    """Return `status` with why the job waits, and since when: for its queue, or for a node."""
    if queue_wait := context.queue_wait:
        changes = {
            "position": queue_wait.position or None,
            "reason": queue_wait.message,
            "since": queue_wait.since or None,
        }
        return status.model_copy(update=changes)
    pod = next(iter(state.unschedulable), None) if state else None
    if pod is None:
        return status
    return status.model_copy(update={"reason": pod.message or pod.reason, "since": pod.created_at})


def all_run(states: Mapping[GangName, GangState]) -> bool:
    """Return whether all replicas of the gang that was started last run or have ended."""
    current = states.get(GangName.EVALUATION) or states.get(GangName.TRAINING)
    return current is not None and current.all_started


def checkpoint_patches(
    states: Mapping[GangName, GangState], scheduling: SchedulingStatus | None, progress: Progress
) -> Iterator[Patch]:
    """Yield the patch with the time of the last checkpoint, if a scheduler may preempt the job.

    Args:
        states: the gangs that have started.
        scheduling: `status.scheduling`.
        progress: `status.progress`.
    """
    training = states.get(GangName.TRAINING)
    if training and scheduling and scheduling.system is not GangSystem.NONE:
        yield from checkpoint_patch(training.leader, progress.last_checkpoint)
