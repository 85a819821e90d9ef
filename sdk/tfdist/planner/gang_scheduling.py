"""The gang scheduler of a job: which one starts its gangs, the objects that it needs, and what it waits for."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from tfdist.api.gang_system import GangSystem
from tfdist.observed.gang_state import GangState
from tfdist.planner.context import PlanContext
from tfdist.planner.decision import Failure
from tfdist.reasons import ConditionReason
from tfdist.render.gang import Gang, GangName
from tfdist.render.gang_systems import gang_system, other_schedulers
from tfdist.render.metadata import Manifest
from tfdist.render.owned_kinds import POD_GROUPS
from tfdist.render.pod_group import pod_group

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
"""What to do where a gang scheduler is missing."""


def missing_scheduler(context: PlanContext, state: GangState) -> Failure | None:
    """Return why a gang cannot start: the gang scheduler that the job requests is not there; None if it is.

    A gang that has started goes on without it. Of `gang: Volcano`, validation has rejected another `schedulerName`.
    """
    system = starting_system(context, state.gang)
    scheduling = context.spec.scheduling
    if state.pods or system is GangSystem.NONE:
        return None
    if system is GangSystem.VOLCANO and (names := other_schedulers(context.job, state.gang)):
        text = (
            f"scheduling.queue: schedulerName {names[0]} keeps the pods out of queues of Volcano; remove one of the two"
        )
        return Failure(ConditionReason.GANG_SCHEDULER_MISSING, text)
    if system in context.view.served_systems:
        return None
    cause, other = f"scheduling.gang: {system}", "choose Auto in a new job"
    if scheduling.gang == "Auto":
        cause, other = f"scheduling.queue: {scheduling.queue}", "remove queue"
    text = f"{cause}: the API server serves no {POD_GROUPS[system].resource}; {_REMEDIES[system]}, or {other}"
    return Failure(ConditionReason.GANG_SCHEDULER_MISSING, text)


def starting_system(context: PlanContext, gang: Gang) -> GangSystem:
    """Return the gang scheduler of the pods of a gang that starts now."""
    return gang_system(context.job, gang, context.installation, context.view.served_systems)


def pod_groups(
    context: PlanContext, states: Iterable[GangState], creates: Collection[GangName]
) -> tuple[Manifest, ...]:
    """Return the PodGroups that must exist; none of a kind that the API server does not serve.

    Args:
        context: of the job.
        states: its gangs.
        creates: the gangs of which a pod is created now.
    """
    served = POD_GROUPS.keys() & context.view.served_systems
    needed = (s for s in states if s.gang.name in creates or any(not p.ended for p in s.pods))
    return tuple(
        pod_group(
            context.specification_of(state) or context.job,
            state.gang,
            state.record.system,
            state.record.last_full_restart,
            context.installation,
        )
        for state in needed
        if state.record.system in served
    )


def scheduling_status(context: PlanContext, states: Mapping[GangName, GangState]) -> dict[str, Any] | None:
    """Return `status.scheduling` of the gang that was started last; None if it is a single replica in no queue."""
    state = states.get(GangName.EVALUATION) or states.get(GangName.TRAINING)
    if state is None:
        return context.view.status.get("scheduling")
    system = state.record.system
    if len(state.gang.members) == 1 and system is GangSystem.NONE:
        return None
    status: dict[str, Any] = {"system": str(system)}
    waiting = next(iter(state.unschedulable), None)
    if waiting is not None:
        status |= {"reason": waiting.message or waiting.reason, "since": waiting.created_at}
    return status
