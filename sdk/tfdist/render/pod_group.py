"""The PodGroup by which the default scheduler of Kubernetes starts all replicas of a gang, or none (KEP-4671).

A PodGroup needs no Workload: that is a template for groups that a controller creates by itself (ADR 36).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.render import names
from tfdist.render.gang import Gang, GangName
from tfdist.render.installation import Installation
from tfdist.render.metadata import metadata
from tfdist.render.template import role_template

API_VERSION: Final = "scheduling.k8s.io/v1beta1"
KIND: Final = "PodGroup"
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_REPLACED_ALONE: Final = frozenset({Strategy.PARAMETER_SERVER, Strategy.CUSTOM})
"""Strategies of which a replica can be preempted without the others."""


def uses_pod_group(job: TFDistJob, gang: Gang, installation: Installation, *, served: bool) -> bool:
    """Return whether the pods of a gang that starts now belong to a PodGroup.

    Args:
        job: the job.
        gang: one of its gangs; the evaluator starts and ends alone.
        installation: its pod defaults may name another scheduler.
        served: whether the API server serves PodGroups.
    """
    if gang.name is GangName.EVALUATOR or len(gang.members) == 1:
        return False
    match job.spec.scheduling.gang:
        case "Native":
            return True
        case "Auto":
            return served and all(_is_plain(pod) for pod in _pod_specs(job, gang, installation))
        case _:
            return False


def _pod_specs(job: TFDistJob, gang: Gang, installation: Installation) -> Iterator[Mapping[str, Any]]:
    """Yield the pod specification of each role of a gang, as far as scheduling is concerned."""
    defaults = installation.pod_defaults.get("spec", {})
    for role in dict.fromkeys(member.role for member in gang.members):
        yield {**defaults, **role_template(job, role).get("spec", {})}


def _is_plain(pod: Mapping[str, Any]) -> bool:
    """Return whether the default scheduler schedules a pod, without a PodGroup of the user's."""
    return pod.get("schedulerName", _DEFAULT_SCHEDULER) == _DEFAULT_SCHEDULER and "schedulingGroup" not in pod


def pod_group(job: TFDistJob, gang: Gang, attempt: int, installation: Installation) -> dict[str, Any]:
    """Return the PodGroup of a gang whose replicas started together in `attempt`.

    With strategies whose replicas restart together, the scheduler preempts all of them or none.
    """
    scheduling = job.spec.scheduling
    minimum = min(scheduling.min_available or len(gang.members), len(gang.members))
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    if job.spec.strategy not in _REPLACED_ALONE:
        spec["disruptionMode"] = {"all": {}}
    if priority := _priority_class(job, gang, installation):
        spec["priorityClassName"] = priority
    name = names.pod_group(job.metadata.name, gang.name, attempt)
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata(job, name), "spec": spec}


def _priority_class(job: TFDistJob, gang: Gang, installation: Installation) -> str:
    """Return the PriorityClass of the leader's pod; "" for the default of the cluster."""
    own = role_template(job, gang.leader.role).get("spec", {}).get("priorityClassName")
    default = installation.pod_defaults.get("spec", {}).get("priorityClassName")
    return str(own or job.spec.scheduling.priority_class_name or default or "")
