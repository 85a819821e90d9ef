"""Distinguishes current pod statuses from stale ones that the API server still has.

When a node's container restarts, all its pods die, but the API server reports them as ready until the node's kubelet
updates their statuses: up to a minute. A status is stale if its containers started before the node, or if a pod of a
Deployment with a readiness probe became ready before. Times are RFC 3339 in UTC, compared to the second as text.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

_SECONDS: Final = len("2026-01-02T03:04:05")


def believed_pods(pods: Iterable[Mapping[str, Any]], node_started: Mapping[str, str]) -> list[str]:
    """Return the names of pods whose reported containers or readiness are older than their node.

    Args:
        pods: objects of the API server.
        node_started: when the container of each node was last started.
    """
    return [
        pod["metadata"]["name"]
        for pod in pods
        if any(time < node_started.get(pod["spec"].get("nodeName", ""), "")[:_SECONDS] for time in _reported_times(pod))
    ]


def _reported_times(pod: Mapping[str, Any]) -> list[str]:
    """Return the times that a pod's status reports; a restart of its node invalidates them."""
    return _starts(pod) + (_ready_since(pod) if _is_probed(pod) else [])


def _is_probed(pod: Mapping[str, Any]) -> bool:
    owners = {owner["kind"] for owner in pod["metadata"].get("ownerReferences", ())}
    return "ReplicaSet" in owners and any("readinessProbe" in c for c in pod["spec"].get("containers", ()))


def _ready_since(pod: Mapping[str, Any]) -> list[str]:
    conditions = pod.get("status", {}).get("conditions", ())
    ready_conditions = (c for c in conditions if c["type"] == "Ready" and c["status"] == "True")
    return [condition["lastTransitionTime"][:_SECONDS] for condition in ready_conditions]


def _starts(pod: Mapping[str, Any]) -> list[str]:
    statuses = pod.get("status", {}).get("containerStatuses", ())
    states = (status.get("state", {}).get("running") for status in statuses)
    return [state["startedAt"][:_SECONDS] for state in states if state]
