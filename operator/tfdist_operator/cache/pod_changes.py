"""How soon a job is planned again after a change of one of its pods: by the fields that have changed (ADR 60).

| Change | Delay |
| --- | --- |
| only fields that no plan reads | never |
| a pod is created, gets a node, or has its containers created | `LATER_SECONDS`: it starts or fails next |
| a container runs, is ready, or succeeds; a pod that was terminating is gone | `BURST_SECONDS`: its peers follow |
| anything else, such as a failure, a deletion, or a pod without a node | none |
"""

from dataclasses import fields
from typing import Final

from tfdist.observed.pod import PodState, PodSummary

BURST_SECONDS: Final = 0.05
"""Replicas of a gang start and end together: their events are one plan. Users do not notice this delay."""
LATER_SECONDS: Final = 2.0
"""A node and the kubelet's first status are read for deadlines and messages only, which count in minutes."""

_UNREAD: Final = frozenset({"resource_version"})
_PLACEMENT: Final = frozenset({"node", "scheduled_at", "ip", "reason", "message"})
_PROGRESS: Final = _PLACEMENT | {"state", "ready", "finished_at", "exit_code", "sidecars_run"}
_OWN: Final = frozenset({"checkpoint_at", "has_deadline"})
"""Written by the controller itself."""
_ORDINARY: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of a pending pod without a problem."""
_READ: Final = tuple(field.name for field in fields(PodSummary) if field.name not in _UNREAD)


def planning_delay(previous: PodSummary | None, current: PodSummary) -> float | None:
    """Return after how many seconds a job is planned whose pod has changed; None if no plan reads the change."""
    if previous is None:
        return LATER_SECONDS if _starts(current) else 0.0
    changed = {name for name in _READ if getattr(previous, name) != getattr(current, name)}
    if not changed:
        return None
    if changed <= _PLACEMENT and _starts(previous) and _starts(current):
        return LATER_SECONDS
    if changed <= _PROGRESS | _OWN and _is_well(previous) and _is_well(current):
        return BURST_SECONDS
    return 0.0


def _is_well(pod: PodSummary) -> bool:
    """Return whether a pod starts, runs or has succeeded: nothing must be done at once."""
    is_undisturbed = not (pod.deleting or pod.disrupted)
    return is_undisturbed and (pod.state in {PodState.RUNNING, PodState.SUCCEEDED} or _starts(pod))


def _starts(pod: PodSummary) -> bool:
    return pod.state is PodState.PENDING and pod.reason in _ORDINARY and not (pod.deleting or pod.disrupted)
