"""Kubernetes' own scheduler, with its feature gate for gangs.

A PodGroup needs no Workload: that is a template for groups that a controller creates by itself (ADR 36).
"""

from typing import Any, Final

from tfdist.api.gang_system import GangSystem
from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.render.metadata import Manifest
from tfdist.render.owned_kind import pod_group_kind
from tfdist.render.pod import GroupFields
from tfdist.scheduling.gang_scheduler import GangScheduler, with_priority

_KIND: Final = pod_group_kind("scheduling.k8s.io/v1beta1")
_REPLACED_ALONE: Final = frozenset({Strategy.PARAMETER_SERVER, Strategy.INDEPENDENT, Strategy.CUSTOM})
"""Strategies of which a replica can be preempted without the others."""


def _specification(job: TFDistJob, minimum: int, priority: str) -> Manifest:
    # Preempting one member of a synchronous gang would stop all, so all are preempted together.
    whole: dict[str, Any] = {} if job.spec.strategy in _REPLACED_ALONE else {"disruptionMode": {"all": {}}}
    return with_priority({"schedulingPolicy": {"gang": {"minCount": minimum}}} | whole, priority)


def _pod_fields(group: str, scheduler: str) -> GroupFields:  # noqa: ARG001  any profile of Kubernetes' scheduler
    return GroupFields(spec={"schedulingGroup": {"podGroupName": group}})


NATIVE: Final = GangScheduler(
    system=GangSystem.NATIVE,
    kind=_KIND,
    remedy=f"enable its feature gate GenericWorkload, with --runtime-config={_KIND.api_version}=true",
    specification=_specification,
    pod_fields=_pod_fields,
    auto_scheduler="default-scheduler",
)
