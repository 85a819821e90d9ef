"""A summary of a pod, of a few hundred bytes: only the fields that planning needs.

The state of the container `tensorflow` counts, not the phase of the pod: a sidecar that never ends does not keep a
replica from completing, and one that fails does not fail it.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from tfdist.contract import MAIN_CONTAINER, Role, replica_name
from tfdist.observed.pod_resources import NO_RESOURCES, PodResources, pod_resources
from tfdist.render import names
from tfdist.timestamps import as_rfc3339

Raw = Mapping[str, Any]

CANNOT_START: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
    }
)
"""Reasons of a waiting container that only a change of the pod or the cluster resolves."""

UNSCHEDULABLE: Final = "Unschedulable"
"""Reason of the condition `PodScheduled=False` of a pod that no node can take."""


class PodState(StrEnum):
    """State of the container `tensorflow`."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PodSummary:
    """One pod. Times are RFC 3339 text from the API server; "" means none yet."""

    name: str
    uid: str
    resource_version: int
    job_uid: str
    role: Role
    index: int
    attempt: int
    generation: str
    """Address generation by which the Service selects it; "" after its removal from the Service."""
    owned: bool
    """Whether the job, or another controller, owns it; an orphan would outlive the job."""
    state: PodState
    ready: bool
    deleting: bool
    disrupted: bool
    created_at: str
    finished_at: str
    deleted_at: str
    """When its deletion was requested."""
    node: str
    ip: str
    exit_code: int | None
    signal: int | None
    conditions: tuple[str, ...]
    """`Type=Status` of every condition, of a pod that has failed or is being deleted; else empty."""
    reason: str
    """Kubernetes' reason why the container ended or waits, or why the pod is not scheduled."""
    message: str
    """The termination message, or the text that belongs to `reason`."""
    container: str = MAIN_CONTAINER
    """The container of `reason` and `message`: an init container if one failed."""
    sidecars_run: bool = False
    """Whether ordinary containers still run after `tensorflow` ended: the pod keeps its resources then."""
    checkpoint_at: str = ""
    """Time of the last checkpoint in its annotation, RFC 3339."""
    has_deadline: bool = False
    """Whether the pod has the deadline that makes the kubelet end them (`planner.sidecars`)."""
    scheduled_at: str = ""
    """When it got its node."""
    resources: PodResources = NO_RESOURCES
    """What it uses from then until it has ended."""

    @property
    def replica(self) -> str:
        """Name of its replica, as `worker-3`."""
        return replica_name(self.role, self.index)

    @property
    def ended(self) -> bool:
        """Whether the container has ended."""
        return self.state in {PodState.SUCCEEDED, PodState.FAILED}

    @property
    def unschedulable(self) -> bool:
        """Whether the scheduler finds no node for it."""
        return self.state is PodState.PENDING and self.reason == UNSCHEDULABLE

    @property
    def lost_at(self) -> str:
        """When its deletion was requested or its container ended, whichever was first; "" before both."""
        return min((t for t in (self.finished_at, self.deleted_at) if t), default="")


def summarize(raw: Raw) -> PodSummary:
    """Return the summary of a pod of a TFDistJob, given its JSON from the API server.

    Raises:
        KeyError, ValueError: the labels differ from those that the controller writes.
    """
    meta, status, spec = raw["metadata"], raw.get("status", {}), raw.get("spec", {})
    labels = meta["labels"]
    name, container = _container_state(status)
    state = _state(status.get("phase", "Pending"), container)
    terminated = container.get("terminated", {})
    reason, message = _reason(raw, status, container)
    return PodSummary(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=int(meta["resourceVersion"]),
        job_uid=sys.intern(labels[names.JOB_UID_LABEL]),
        role=Role(labels[names.ROLE_LABEL]),
        index=int(labels[names.INDEX_LABEL]),
        attempt=int(labels[names.ATTEMPT_LABEL]),
        generation=labels.get(names.SERVICE_GENERATION_LABEL, ""),
        owned=any(
            o["uid"] == labels[names.JOB_UID_LABEL] or o.get("controller") for o in meta.get("ownerReferences", ())
        ),
        state=state,
        ready=state is PodState.RUNNING and _condition(status, "Ready").get("status") == "True",
        deleting="deletionTimestamp" in meta,
        disrupted=_condition(status, "DisruptionTarget").get("status") == "True" or status.get("reason") in _LOST,
        created_at=meta.get("creationTimestamp", ""),
        finished_at=terminated.get("finishedAt") or "",
        deleted_at=_deleted_at(meta),
        node=sys.intern(spec.get("nodeName", "")),
        ip=status.get("podIP", ""),
        exit_code=terminated.get("exitCode"),
        signal=_signal(terminated),
        conditions=_conditions(status) if state is PodState.FAILED or "deletionTimestamp" in meta else (),
        reason=reason,
        message=message,
        container=name,
        sidecars_run=bool(terminated) and status.get("phase") in {"Pending", "Running"} and _sidecars_run(status),
        checkpoint_at=as_rfc3339((meta.get("annotations") or {}).get(names.CHECKPOINT_ANNOTATION, "")),
        has_deadline=spec.get("activeDeadlineSeconds") == SIDECAR_DEADLINE_SECONDS,
        scheduled_at=_scheduled_at(status),
        resources=pod_resources(spec),
    )


SIDECAR_DEADLINE_SECONDS: Final = 1
"""`activeDeadlineSeconds` that ends sidecars: it counts from the start of the pod, so it has passed already."""

_LOST: Final = frozenset({"Evicted", "NodeLost", "Shutdown", "Terminated", "NodeShutdown", "Preempting"})


def _container_state(status: Raw) -> tuple[str, Raw]:
    """Return name and state of the main container, or of the init container that keeps it from starting."""
    statuses: Sequence[Raw] = status.get("containerStatuses", ())
    main: Raw = next((c.get("state", {}) for c in statuses if c.get("name") == MAIN_CONTAINER), {})
    init_state = None if "terminated" in main or "running" in main else _failed_init(status)
    return init_state or (MAIN_CONTAINER, main)


def _sidecars_run(status: Raw) -> bool:
    """Return whether an ordinary container other than the main one runs; the kubelet ends native sidecars itself."""
    statuses: Sequence[Raw] = status.get("containerStatuses", ())
    return any("terminated" not in c.get("state", {}) for c in statuses if c.get("name") != MAIN_CONTAINER)


def _failed_init(status: Raw) -> tuple[str, Raw] | None:
    """Return name and state of an init container that failed the pod or cannot start."""
    for container in status.get("initContainerStatuses", ()):
        for kind, state in container.get("state", {}).items():
            failed = kind == "terminated" and state.get("exitCode") and status.get("phase") == "Failed"
            if failed or (kind == "waiting" and state.get("reason") in CANNOT_START):
                text = state.get("message") or state.get("reason", "")
                name = str(container["name"])
                return name, {kind: {**state, "message": f"init container {name}: {text}"}}
    return None


def _state(phase: str, container: Raw) -> PodState:
    if "terminated" in container:
        return PodState.SUCCEEDED if container["terminated"].get("exitCode") == 0 else PodState.FAILED
    if phase == "Failed":  # evicted or lost before the container's end was recorded
        return PodState.FAILED
    if phase == "Succeeded":
        return PodState.SUCCEEDED
    return PodState.RUNNING if "running" in container or phase == "Running" else PodState.PENDING


def _reason(raw: Raw, status: Raw, container: Raw) -> tuple[str, str]:
    """Return the first reason, with its message, of: termination, waiting, pod status, scheduling.

    The reason of a disruption comes before them: it explains more than the signal that ended the container.
    """
    taken = _condition(status, "DisruptionTarget")
    if taken.get("status") == "True" and not container.get("terminated", {}).get("message"):
        return taken.get("reason", ""), taken.get("message", "")
    if status.get("reason") in _LOST:
        return status["reason"], status.get("message", "")
    for state in ("terminated", "waiting"):
        if container.get(state, {}).get("reason"):
            return container[state]["reason"], container[state].get("message", "")
    if status.get("reason"):
        return status["reason"], status.get("message", "")
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False" and not raw.get("spec", {}).get("nodeName"):
        return scheduled.get("reason", ""), scheduled.get("message", "")
    return "", ""


def _deleted_at(meta: Raw) -> str:
    """Return when the deletion was requested: `deletionTimestamp` is the end of its grace period."""
    if "deletionTimestamp" not in meta:
        return ""
    grace = timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)
    return (datetime.fromisoformat(meta["deletionTimestamp"]) - grace).strftime("%Y-%m-%dT%H:%M:%SZ")


def _scheduled_at(status: Raw) -> str:
    scheduled = _condition(status, "PodScheduled")
    return sys.intern(scheduled.get("lastTransitionTime") or "") if scheduled.get("status") == "True" else ""


def _signal(ended: Raw) -> int | None:
    """Return the signal that ended the container, from the runtime or from a shell's exit code."""
    code = ended.get("exitCode") or 0
    return ended.get("signal") or (code - 128 if 128 < code < 160 else None)  # noqa: PLR2004  the shell's convention


def _conditions(status: Raw) -> tuple[str, ...]:
    return tuple(sys.intern(f"{c['type']}={c['status']}") for c in status.get("conditions", ()))


def _condition(status: Raw, kind: str) -> Raw:
    return next((c for c in status.get("conditions", ()) if c["type"] == kind), {})
