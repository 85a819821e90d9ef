"""Coscheduling, a plugin of scheduler-plugins. `Auto` never chooses it: no API says which scheduler has the plugin."""

from typing import Final

from tfdist.api.gang_system import GangSystem
from tfdist.api.v1 import TFDistJob
from tfdist.render.metadata import Manifest
from tfdist.render.owned_kind import pod_group_kind
from tfdist.render.pod import GroupFields
from tfdist.scheduling.gang_scheduler import GangScheduler

_SCHEDULER: Final = "scheduler-plugins-scheduler"
"""`schedulerName` of the profile that the chart of scheduler-plugins has by default."""
_GROUP: Final = "scheduling.x-k8s.io/pod-group"
"""Label by which a pod names its PodGroup."""
_RETRY_SHARE: Final = 0.7
"""Part of the time for which Coscheduling holds the nodes of a gang, after which it is to consider the gang again.

By then the pods that hold nodes hold them still. If both took equally long, those that lose their nodes at the moment
of each retry would be left out of it, and wait for the next one.
"""
_RETRY_SECONDS: Final = (13.0, 42.0)
"""Minimum and maximum of that; Coscheduling's default is 60 s."""


def _specification(job: TFDistJob, minimum: int, priority: str) -> Manifest:  # noqa: ARG001  its kind has no priority
    limit = job.spec.scheduling.timeout_seconds
    return {"minMember": minimum} | ({"scheduleTimeoutSeconds": limit} if limit else {})


def _pod_fields(group: str, scheduler: str) -> GroupFields:
    return GroupFields(labels={_GROUP: group}, spec={"schedulerName": scheduler or _SCHEDULER})


def _retry_seconds(job: TFDistJob) -> float:
    """Return after how many seconds a gang that waits for nodes is to be considered again.

    Coscheduling rejects the waiting pods of a gang that does not fit, and considers those again when a pod or a
    PodGroup is created or a PodGroup changes: not when pods end or a node is added (scheduler-plugins 0.34,
    `coscheduling.go`, `PostFilter` and `EventsToRegister`). Kubernetes then retries them after five minutes.
    """
    least, most = _RETRY_SECONDS
    timeout = job.spec.scheduling.timeout_seconds
    return most if timeout is None else min(max(_RETRY_SHARE * timeout, least), most)


COSCHEDULING: Final = GangScheduler(
    system=GangSystem.COSCHEDULING,
    kind=pod_group_kind("scheduling.x-k8s.io/v1alpha1"),
    remedy="install scheduler-plugins (https://scheduler-plugins.sigs.k8s.io) with its Coscheduling plugin",
    specification=_specification,
    pod_fields=_pod_fields,
    retry_seconds=_retry_seconds,
)
