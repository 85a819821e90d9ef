"""Volcano, whose gangs wait in its queues."""

from typing import Final

from tfdist.api.gang_system import GangSystem
from tfdist.api.v1 import TFDistJob
from tfdist.render.metadata import Manifest
from tfdist.render.owned_kind import pod_group_kind
from tfdist.render.pod import GroupFields
from tfdist.scheduling.gang_scheduler import GangScheduler, with_priority

_SCHEDULER: Final = "volcano"
"""`schedulerName` of Volcano's scheduler."""
_GROUP: Final = "scheduling.k8s.io/group-name"
"""Annotation by which a pod names its PodGroup."""


def _queue(job: TFDistJob) -> str:
    return job.spec.scheduling.queue or "default"


def _specification(job: TFDistJob, minimum: int, priority: str) -> Manifest:
    # Without minResources: Volcano adds up the requests of the pods itself.
    return with_priority({"minMember": minimum, "queue": _queue(job)}, priority)


def _pod_fields(group: str, scheduler: str) -> GroupFields:  # noqa: ARG001  replaces any other
    return GroupFields(annotations={_GROUP: group}, spec={"schedulerName": _SCHEDULER})


VOLCANO: Final = GangScheduler(
    system=GangSystem.VOLCANO,
    kind=pod_group_kind("scheduling.volcano.sh/v1beta1"),
    remedy="install Volcano (https://volcano.sh)",
    specification=_specification,
    pod_fields=_pod_fields,
    auto_scheduler=_SCHEDULER,
    only_scheduler=_SCHEDULER,
    queue=_queue,
)
