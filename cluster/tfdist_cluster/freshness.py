"""Tells what the API server says of pods from what it merely still believes.

When a node's container is started again, all its pods die with it, but the API server goes on reporting them as ready
until the node's kubelet speaks: up to a minute. A pod's containers that started before their node did are such a
belief. Times are RFC 3339 in UTC, compared to the second as text.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

_SECONDS: Final = len("2026-01-02T03:04:05")


def believed_pods(pods: Iterable[Mapping[str, Any]], node_started: Mapping[str, str]) -> list[str]:
    """Return the names of pods whose reported containers are older than their node.

    Args:
        pods: objects of the API server.
        node_started: when the container of each node was last started.
    """
    return [
        pod["metadata"]["name"]
        for pod in pods
        if any(start < node_started.get(pod["spec"].get("nodeName", ""), "")[:_SECONDS] for start in _starts(pod))
    ]


def _starts(pod: Mapping[str, Any]) -> list[str]:
    statuses = pod.get("status", {}).get("containerStatuses", ())
    running = (status.get("state", {}).get("running") for status in statuses)
    return [state["startedAt"][:_SECONDS] for state in running if state]
