"""The gang scheduler of a job: which one starts its gangs, the objects that it needs, and what it waits for."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from tfdist.api.gang_status import SchedulingStatus
from tfdist.api.gang_system import Availability, GangSystem
from tfdist.api.status import Progress
from tfdist.desired.pods import Patch, checkpoint_patch
from tfdist.observed.gang_state import GangState
from tfdist.observed.pod import PodState
from tfdist.planner.context import PlanContext
from tfdist.planner.kueue import kueue_status, missing_reason, uses_kueue
from tfdist.planner.plan import GangFailure
from tfdist.reasons import ConditionReason
from tfdist.render.gang import Gang, GangName
from tfdist.render.gang_systems import gang_system, other_schedulers
from tfdist.render.metadata import Manifest
from tfdist.render.owned_kinds import POD_GROUPS
from tfdist.render.pod_group import pod_group
from tfdist.render.workload import GROUP, PLURAL

_REMEDIES: Final[Mapping[GangSystem, str]] = MappingProxyType(
    {
        GangSystem.NATIVE: (
            "enable its feature gate GenericWorkload, with "
            f"--runtime-config={POD_GROUPS[GangSystem.NATIVE].api_version}=true"
        ),
        GangSystem.VOLCANO: "install Volcano (https://volcano.sh)",
        GangSystem.COSCHEDULING: (
            "install scheduler-plugins (https://scheduler-plugins.sigs.k8s.io) with its Coscheduling plugin"
        ),
    }
)
"""What to do if a gang scheduler is missing."""
_NO_QUEUES: Final = (
    f"the API server serves neither {PLURAL}.{GROUP} nor {POD_GROUPS[GangSystem.VOLCANO].resource}; install Kueue or "
    "Volcano, or remove queue"
)

_UNKNOWN: Final = (
    "the controller does not know whether the API server serves {resource}; the gang waits until it does. If this "
    "lasts, see the controller's log for the cause, for example that its role lacks list and watch on {resource}; a "
    "job with scheduling.gang: None needs neither"
)


_RETRY_SHARE: Final = 0.7
"""Part of the time for which Coscheduling holds the nodes of a gang, after which it is to consider the gang again.

By then the pods that hold nodes hold them still. If both took equally long, those that lose their nodes at the moment
of each retry would be left out of it, and wait for the next one.
"""
_RETRY_SECONDS: Final = (13.0, 42.0)
"""Minimum and maximum of that; Coscheduling's default is 60 s."""


def missing_scheduler(context: PlanContext, state: GangState) -> GangFailure | None:
    """Return why a gang cannot start: its gang scheduler is not installed, or not known to be; None if it is.

    A gang that has started continues without it. With `gang: Volcano`, validation rejects any other `schedulerName`.
    Without Kueue no pod is created, since nothing can admit the job.
    """
    if text := missing_reason(context.view, context.job):
        return GangFailure(_reason(context, GangSystem.KUEUE), text)
    system = starting_system(context, state.gang)
    scheduling = context.spec.scheduling
    if state.pods or system is GangSystem.NONE:
        return None
    if system is GangSystem.VOLCANO and (names := other_schedulers(context.job, state.gang)):
        text = (
            f"scheduling.queue: schedulerName {names[0]} keeps the pods out of Volcano's queues; remove one of the two"
        )
        return GangFailure(ConditionReason.GANG_SCHEDULER_MISSING, text)
    availability = context.view.availability(system)
    if availability is Availability.SERVED:
        return None
    if availability is Availability.UNKNOWN:
        text = _UNKNOWN.format(resource=POD_GROUPS[system].resource)
    elif scheduling.gang == "Auto":
        text = f"scheduling.queue: {scheduling.queue}: {_NO_QUEUES}"
    else:
        text = f"scheduling.gang: {system}: the API server serves no {POD_GROUPS[system].resource}; "
        text += f"{_REMEDIES[system]}, or choose Auto in a new job"
    return GangFailure(_reason(context, system), text)


def _reason(context: PlanContext, system: GangSystem) -> ConditionReason:
    is_unknown = context.view.availability(system) is Availability.UNKNOWN
    return ConditionReason.GANG_SCHEDULER_UNKNOWN if is_unknown else ConditionReason.GANG_SCHEDULER_MISSING


def starting_system(context: PlanContext, gang: Gang) -> GangSystem:
    """Return the gang scheduler of the pods of a gang that starts now: one that is served, or that may be."""
    systems = {system for system in POD_GROUPS if context.view.availability(system) is not Availability.ABSENT}
    if uses_kueue(context.view, context.job):
        systems.add(GangSystem.KUEUE)
    return gang_system(context.job, gang, context.installation, systems)


def pod_groups(
    context: PlanContext, states: Iterable[GangState], creates: Collection[GangName]
) -> tuple[Manifest, ...]:
    """Return the PodGroups that must exist, also of a kind that the API server does not serve now.

    Args:
        context: of the job.
        states: its gangs.
        creates: the gangs of which a pod is created now.
    """
    running_states = (s for s in states if s.gang.name in creates or any(not p.ended for p in s.pods))
    return tuple(
        pod_group(
            context.specification_of(state) or context.job,
            state.gang,
            state.record.system,
            state.record.last_full_restart,
            context.installation,
            countable_members=state.countable_members,
            retries=int(_seconds_without_node(context, state) // _retry_seconds(context)),
        )
        for state in running_states
        if state.record.system in POD_GROUPS
    )


def seconds_until_retry(context: PlanContext, states: Iterable[GangState]) -> float | None:
    """Return when the scheduler of a gang is to consider it again; None if it does so by itself."""
    interval = _retry_seconds(context)
    waits = [waited for state in states if (waited := _seconds_without_node(context, state))]
    return min((interval - waited % interval for waited in waits), default=None)


def _retry_seconds(context: PlanContext) -> float:
    least, most = _RETRY_SECONDS
    timeout = context.spec.scheduling.timeout_seconds
    return most if timeout is None else min(max(_RETRY_SHARE * timeout, least), most)


def _seconds_without_node(context: PlanContext, state: GangState) -> float:
    """Return for how long a gang has waited for nodes under a scheduler that may forget it; 0 if it does not wait.

    Coscheduling rejects the waiting pods of a gang that does not fit, and considers those again when a pod or a
    PodGroup is created or a PodGroup changes: not when pods end or a node is added (scheduler-plugins 0.34,
    `coscheduling.go`, `PostFilter` and `EventsToRegister`). Kubernetes then retries them after five minutes.
    """
    if state.record.system is not GangSystem.COSCHEDULING:
        return 0.0
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
    system = state.record.system
    if len(state.gang.members) == 1 and system is GangSystem.NONE:
        return None
    queue = (context.spec.scheduling.queue or "default") if system is GangSystem.VOLCANO else None
    return _with_wait(context, state, SchedulingStatus(system=system, queue=queue))


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
