"""Which gang scheduler starts a gang: the one that the job requests, or the one that `Auto` chooses."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from tfdist.api.gang_system import GangSystem
from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.render.gang import Gang, GangName
from tfdist.render.installation import Installation
from tfdist.render.template import role_template

VOLCANO_SCHEDULER: Final = "volcano"
"""`schedulerName` of Volcano's scheduler."""
VOLCANO_GROUP: Final = "scheduling.k8s.io/group-name"
"""Annotation by which a pod names its PodGroup of Volcano."""
COSCHEDULING_GROUP: Final = "scheduling.x-k8s.io/pod-group"
"""Label by which a pod names its PodGroup of scheduler-plugins."""

_DEFAULT_SCHEDULER: Final = "default-scheduler"


def gang_system(job: TFDistJob, gang: Gang, installation: Installation, served: Collection[GangSystem]) -> GangSystem:
    """Return the gang scheduler of the pods of a gang that starts now; `NONE` if they are scheduled one by one.

    Its kinds may not be served: then the job waits for them.

    Args:
        job: the job.
        gang: one of its gangs. A single replica is a gang only if it waits in a queue of Volcano.
        installation: its pod defaults may name another scheduler.
        served: the gang schedulers whose kinds the API server serves.
    """
    requested = job.spec.scheduling.gang
    system = _auto_system(job, gang, installation, served) if requested in {"Auto", "Kueue"} else GangSystem(requested)
    # A single replica is its own gang, but in a queue it must use its quota too (ADR 37).
    is_single = gang.name is GangName.EVALUATOR or len(gang.members) == 1
    return GangSystem.NONE if is_single and system is not GangSystem.VOLCANO else system


def _auto_system(job: TFDistJob, gang: Gang, installation: Installation, served: Collection[GangSystem]) -> GangSystem:
    """Return the gang scheduler that `Auto` chooses; a job with a queue waits for the system of the queue.

    Pods of a job that Kueue admits are scheduled by the gang scheduler that is chosen without a queue.
    """
    scheduling = job.spec.scheduling
    # A queue is waited for: without it the job would run outside of the quota of its team (ADR 37).
    if scheduling.queue and scheduling.gang == "Auto" and GangSystem.KUEUE not in served:
        return GangSystem.VOLCANO
    # Independent replicas gain nothing by starting together.
    if job.spec.strategy is Strategy.INDEPENDENT and scheduling.min_available is None:
        return GangSystem.NONE
    templates = tuple(_templates(job, gang, installation))
    if any(map(_names_group, templates)):
        return GangSystem.NONE  # the user defines the PodGroup
    # Only one scheduler can place a whole gang.
    schedulers = {pod["spec"].get("schedulerName") or _DEFAULT_SCHEDULER for pod in templates}
    by_name = {_DEFAULT_SCHEDULER: GangSystem.NATIVE, VOLCANO_SCHEDULER: GangSystem.VOLCANO}
    system = by_name.get(schedulers.pop(), GangSystem.NONE) if len(schedulers) == 1 else GangSystem.NONE
    return system if system in served else GangSystem.NONE


def other_schedulers(job: TFDistJob, gang: Gang) -> tuple[str, ...]:
    """Return each `schedulerName` in the templates of a job other than Volcano's."""
    roles = dict.fromkeys(member.role for member in gang.members)
    schedulers = (role_template(job, role).get("spec", {}).get("schedulerName") for role in roles)
    return tuple(dict.fromkeys(name for name in schedulers if name and name != VOLCANO_SCHEDULER))


def _templates(job: TFDistJob, gang: Gang, installation: Installation) -> Iterator[Mapping[str, Any]]:
    """Yield the template of each role of a gang, merged with the pod defaults as far as scheduling is concerned."""
    defaults = installation.pod_defaults
    for role in dict.fromkeys(member.role for member in gang.members):
        template = role_template(job, role)
        levels = (defaults.get("metadata", {}), template.get("metadata", {}))
        metadata = {kind: {k: v for level in levels for k, v in level.get(kind, {}).items()} for kind in _MARKS}
        yield {"metadata": metadata, "spec": {**defaults.get("spec", {}), **template.get("spec", {})}}


_MARKS: Final = ("labels", "annotations")


def _names_group(template: Mapping[str, Any]) -> bool:
    """Return whether a pod belongs to a PodGroup of the user's."""
    meta = template["metadata"]
    has_group = VOLCANO_GROUP in meta["annotations"] or COSCHEDULING_GROUP in meta["labels"]
    return has_group or "schedulingGroup" in template["spec"]
