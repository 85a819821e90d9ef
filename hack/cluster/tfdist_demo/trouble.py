"""Why a pod does not run, derived from the pod alone; pure.

Transient states (an image that is being pulled, a container that is being created) are not reported.
"""

from collections.abc import Mapping
from typing import Any, Final

ADVICE: Final = {
    "ErrImagePull": "the image is not in the cluster; run `make images`",
    "ErrImageNeverPull": "the image is not in the cluster; run `make images`",
    "ImagePullBackOff": "the image is not in the cluster; run `make images`",
    "InvalidImageName": "the image's name is wrong",
    "CreateContainerConfigError": "the container's configuration is wrong",
    "CreateContainerError": "the container cannot be made",
    "RunContainerError": "the container cannot be started",
    "CrashLoopBackOff": "the program ends again and again",
}
"""Reasons of waiting containers that do not resolve by themselves."""


def of_pod(pod: Mapping[str, Any]) -> str | None:
    """Return why the pod does not and will not run, or None."""
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    for container in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason")
        if reason in ADVICE:
            message = waiting.get("message", "")
            return f"pod {name}: {reason}, {ADVICE[reason]}" + (f" ({message})" if message else "")
    return None


def unschedulable(pod: Mapping[str, Any]) -> str | None:
    """Return why no node takes the pod, or None; it may pass when others end, so callers give it time."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return f"pod {pod['metadata']['name']} fits on no node: {condition.get('message', '')}"
    return None
