"""KAI Scheduler, whose gangs wait in its queues.

Its pod grouper gives pods of an owner that it does not know a PodGroup of one member each time; from KAI 0.15, an
annotation keeps it away from pods that have a PodGroup already. `Auto` never chooses it.
"""

from typing import Final

from tfdist.api.gang_system import GangSystem
from tfdist.api.v1 import TFDistJob
from tfdist.render.metadata import Manifest
from tfdist.render.owned_kind import pod_group_kind
from tfdist.render.pod import GroupFields
from tfdist.scheduling.gang_scheduler import GangScheduler, with_priority

_SCHEDULER: Final = "kai-scheduler"
"""`schedulerName` of KAI's scheduler."""
_GROUP: Final = "pod-group-name"
"""Annotation by which a pod names its PodGroup."""
_SKIP_POD_GROUPER: Final = "kai.scheduler/skip-podgrouper"
"""Annotation of pods whose PodGroup another controller makes."""


def _queue(job: TFDistJob) -> str:
    return job.spec.scheduling.queue or "default-queue"


def _specification(job: TFDistJob, minimum: int, priority: str) -> Manifest:
    return with_priority({"minMember": minimum, "queue": _queue(job)}, priority)


def _pod_fields(group: str, scheduler: str) -> GroupFields:  # noqa: ARG001  replaces any other
    return GroupFields(
        annotations={_GROUP: group, _SKIP_POD_GROUPER: "true"},
        spec={"schedulerName": _SCHEDULER},
    )


KAI: Final = GangScheduler(
    system=GangSystem.KAI,
    kind=pod_group_kind("scheduling.run.ai/v2alpha2"),
    remedy="install KAI Scheduler (https://github.com/NVIDIA/KAI-Scheduler), version 0.15 or later",
    specification=_specification,
    pod_fields=_pod_fields,
    only_scheduler=_SCHEDULER,
    queue=_queue,
)
