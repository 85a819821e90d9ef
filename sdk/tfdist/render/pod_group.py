"""The PodGroup by which a gang scheduler starts all replicas of a gang, or none, and the fields of pods that name it.

Kubernetes' own scheduler, Volcano and scheduler-plugins each have such a kind. One of Kubernetes needs no Workload:
that is a template for groups that a controller creates by itself (ADR 36).
"""

from typing import Any, Final

from tfdist.api.gang_system import GangSystem
from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.render import names
from tfdist.render.gang import Gang, start_minimum
from tfdist.render.gang_systems import COSCHEDULING_GROUP, VOLCANO_GROUP, VOLCANO_SCHEDULER
from tfdist.render.installation import Installation
from tfdist.render.metadata import Manifest, metadata
from tfdist.render.owned_kinds import POD_GROUPS
from tfdist.render.template import role_template

_COSCHEDULER: Final = "scheduler-plugins-scheduler"
"""`schedulerName` of the profile that the chart of scheduler-plugins has by default."""
_REPLACED_ALONE: Final = frozenset({Strategy.PARAMETER_SERVER, Strategy.INDEPENDENT, Strategy.CUSTOM})
"""Strategies of which a replica can be preempted without the others."""


def pod_group(
    job: TFDistJob,
    gang: Gang,
    system: GangSystem,
    attempt: int,
    installation: Installation,
    *,
    countable_members: int | None = None,
    retries: int = 0,
) -> Manifest:
    """Return the PodGroup of a gang.

    Args:
        job: the job.
        gang: one of its gangs.
        system: the gang scheduler, one of `POD_GROUPS`.
        attempt: the attempt in which its replicas started together.
        installation: its pod defaults may have the priority.
        countable_members: how many members the scheduler can count; None for all. It never waits for more.
        retries: how often its scheduler is to consider it again.
    """
    kind = POD_GROUPS[system]
    made = {"apiVersion": kind.api_version, "kind": kind.kind}
    name = names.pod_group(job.metadata.name, gang.name, attempt)
    # A minimum above what the scheduler can count would never be reached (ADR 36).
    limit = len(gang.members) if countable_members is None else max(1, countable_members)
    spec = _specification(job, system, min(start_minimum(job, gang), limit))
    if system is not GangSystem.COSCHEDULING and (priority := _priority_class(job, gang, installation)):
        spec["priorityClassName"] = priority
    meta = metadata(job, name)
    # A changed label is a change of the PodGroup, which makes Coscheduling consider its pods again.
    meta["labels"] |= {names.RETRY_LABEL: str(retries)} if retries else {}
    return made | {"metadata": meta, "spec": spec}


def _specification(job: TFDistJob, system: GangSystem, minimum: int) -> dict[str, Any]:
    """Return the specification of a PodGroup, without its priority.

    Volcano gets no `minResources`: it adds up the requests of the pods itself.
    """
    scheduling = job.spec.scheduling
    if system is GangSystem.VOLCANO:
        return {"minMember": minimum, "queue": scheduling.queue or "default"}
    if system is GangSystem.COSCHEDULING:
        limit = scheduling.timeout_seconds
        return {"minMember": minimum} | ({"scheduleTimeoutSeconds": limit} if limit else {})
    # Preempting one member of a synchronous gang would stop all, so all are preempted together.
    whole: dict[str, Any] = {} if job.spec.strategy in _REPLACED_ALONE else {"disruptionMode": {"all": {}}}
    return {"schedulingPolicy": {"gang": {"minCount": minimum}}} | whole


def membership(system: GangSystem, group: str, scheduler: str) -> tuple[Manifest, Manifest, Manifest]:
    """Return the labels, annotations and fields of the specification by which a pod belongs to a PodGroup.

    Args:
        system: the gang scheduler.
        group: name of the PodGroup.
        scheduler: `schedulerName` of the pod; "" for none.
    """
    match system:
        case GangSystem.NATIVE:
            return {}, {}, {"schedulingGroup": {"podGroupName": group}}
        case GangSystem.VOLCANO:
            return {}, {VOLCANO_GROUP: group}, {"schedulerName": VOLCANO_SCHEDULER}
        case GangSystem.COSCHEDULING:
            return {COSCHEDULING_GROUP: group}, {}, {"schedulerName": scheduler or _COSCHEDULER}
        case _:
            return {}, {}, {}


def _priority_class(job: TFDistJob, gang: Gang, installation: Installation) -> str:
    """Return the PriorityClass of the leader's pod; "" for the default of the cluster."""
    own = role_template(job, gang.leader.role).get("spec", {}).get("priorityClassName")
    default = installation.pod_defaults.get("spec", {}).get("priorityClassName")
    return str(own or job.spec.scheduling.priority_class_name or default or "")
