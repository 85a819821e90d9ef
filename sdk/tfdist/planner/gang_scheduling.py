"""The gang scheduler of a job: which one starts its gangs, the objects that it needs, and what it waits for."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tfdist.observed.gang_state import GangState
from tfdist.planner.context import PlanContext
from tfdist.planner.decision import Failure
from tfdist.reasons import ConditionReason
from tfdist.render.gang import Gang, GangName
from tfdist.render.metadata import Manifest
from tfdist.render.pod_group import API_VERSION, pod_group, uses_pod_group


def missing_scheduler(context: PlanContext, state: GangState) -> Failure | None:
    """Return why a gang cannot start: the gang scheduler that the job requests is not there; None if it is.

    A gang that has started goes on without it.
    """
    if state.pods or context.view.serves_pod_groups or not starts_as_pod_group(context, state.gang):
        return None
    text = (
        f"scheduling.gang: Native: the API server serves no podgroups of {API_VERSION}; enable its feature gate "
        f"GenericWorkload, with --runtime-config={API_VERSION}=true, or choose Auto in a new job"
    )
    return Failure(ConditionReason.GANG_SCHEDULER_MISSING, text)


def starts_as_pod_group(context: PlanContext, gang: Gang) -> bool:
    """Return whether the pods of a gang that starts now belong to a PodGroup."""
    return uses_pod_group(context.job, gang, context.installation, served=context.view.serves_pod_groups)


def pod_groups(
    context: PlanContext, states: Iterable[GangState], creates: Collection[GangName]
) -> tuple[Manifest, ...]:
    """Return the PodGroups that must exist; none while the API server does not serve them.

    Args:
        context: of the job.
        states: its gangs.
        creates: the gangs of which a pod is created now.
    """
    needed = (s for s in states if s.record.pod_group and (s.gang.name in creates or any(not p.ended for p in s.pods)))
    return tuple(
        pod_group(
            context.specification_of(state) or context.job,
            state.gang,
            state.record.last_full_restart,
            context.installation,
        )
        for state in (needed if context.view.serves_pod_groups else ())
    )


def scheduling_status(context: PlanContext, states: Mapping[GangName, GangState]) -> dict[str, Any] | None:
    """Return `status.scheduling` of the gang that was started last; None if it has a single replica."""
    state = states.get(GangName.EVALUATION) or states.get(GangName.TRAINING)
    if state is None:
        return context.view.status.get("scheduling")
    if len(state.gang.members) == 1:
        return None
    status: dict[str, Any] = {"system": "Native" if state.record.pod_group else "None"}
    waiting = next(iter(state.unschedulable), None)
    if waiting is not None:
        status |= {"reason": waiting.message or waiting.reason, "since": waiting.created_at}
    return status
