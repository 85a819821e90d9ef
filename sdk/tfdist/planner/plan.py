"""The plan of one reconcile of a job, and the decision about one gang that it is built from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tfdist.api.status import ConditionType, ReplicaFailure
from tfdist.contract import Role
from tfdist.desired.objects import ObjectName
from tfdist.desired.pods import Patch
from tfdist.observed.gang_state import GangState
from tfdist.render.gang import Member
from tfdist.render.metadata import Manifest
from tfdist.status.conditions import Condition
from tfdist.status.text import message


@dataclass(frozen=True, slots=True)
class Event:
    """One Kubernetes Event of a job; `warning` or normal. `identity` distinguishes two events of the same reason."""

    reason: str
    message: str
    warning: bool = False
    identity: str = ""
    cause: str = ""
    """Reason of the root cause, in an event of a restart."""
    is_reported: bool = False
    """Whether it stems from a pod's report and not from a failure: pods can invent any number of such events."""

    def __post_init__(self) -> None:
        """Make the message readable: each event passes here, whoever records it."""
        object.__setattr__(self, "message", message(self.message))


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """A replica to probe for its progress and stacks."""

    role: Role
    index: int
    ip: str


@dataclass(frozen=True, slots=True)
class WorkloadChange:
    """One change of the Workload by which Kueue admits a job: exactly one field is set."""

    manifest: Manifest | None = None
    """The Workload that must exist, without its priority; one that holds quota gets its priority alone."""
    status: Manifest | None = None
    """A merge patch of its status, made from the version that the view has."""
    delete: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """All actions for one job, in the order of execution."""

    status: Manifest | None = None
    """The whole status to write; None leaves the stored one."""
    settled: bool = False
    """Whether no action follows from the write of the status: events of pods, reports or a timer bring the next one."""
    objects: tuple[Manifest, ...] = ()
    """Service and NetworkPolicy that must exist with these contents; equal ones cost no request."""
    workload: WorkloadChange | None = None
    launcher_secret: Manifest | None = None
    """Secret that must exist before the pods are created; an existing one is left as it is."""
    creates: tuple[Manifest, ...] = ()
    """Pods to create."""
    patches: tuple[Patch, ...] = ()
    deletes: tuple[str, ...] = ()
    """Names of pods to delete."""
    tensorboard: tuple[Manifest, ...] = ()
    """Objects of the job's TensorBoard; if they are rejected, everything else continues."""
    obsolete: tuple[ObjectName, ...] = ()
    """Objects to delete if they exist and the job owns them. Objects that no field names are not touched."""
    delete_job: bool = False
    probes: tuple[ProbeTarget, ...] = ()
    """Replicas to probe; the next reconcile needs their answers."""
    probe_id: str = ""
    """Identity of the stall or peer failure that the probes are about."""
    unexplained_pod: str = ""
    """Name of a pod that has not started for long without a reason in its status: its events may have one."""
    leader: str = ""
    """Name of the pod whose progress is polled: the leader of training, or of the evaluation after it."""
    evaluator: str = ""
    """Name of the pod whose evaluation results are polled in addition."""
    events: tuple[Event, ...] = ()
    completed: Mapping[str, tuple[int, frozenset[str]]] = field(default_factory=dict)
    """Replicas that succeeded, by gang, with the attempt; kept in memory until the status has them."""
    failure_seen_at: Mapping[str, datetime] = field(default_factory=dict)
    """When failed or terminating pods were first seen, by name; kept in memory."""
    requeue_after_seconds: float | None = None
    """When to reconcile again without a change."""


@dataclass(frozen=True, slots=True)
class GangFailure:
    """Why a gang has failed permanently."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class GangDecision:
    """What to do for a gang. `state` is the state to continue with; its record is written to the status."""

    state: GangState
    create: tuple[Member, ...] = ()
    conditions: tuple[Condition, ...] = ()
    failures: tuple[ReplicaFailure, ...] = ()
    failure: GangFailure | None = None
    events: tuple[Event, ...] = ()
    probes: tuple[ProbeTarget, ...] = ()
    probe_id: str = ""
    unexplained_pod: str = ""
    """Name of a pod whose events may have the reason why it has not started."""
    requeue_after_seconds: float | None = None


def not_ready(reason: str, message: str) -> Condition:
    """Return the condition `PodsReady=False`."""
    return Condition(ConditionType.PODS_READY, False, reason, message)


def min_delay(times: Sequence[float | None]) -> float | None:
    """Return the shortest of several delays in seconds, at least 0; None if all are None."""
    known = [t for t in times if t is not None]
    return max(0.0, min(known)) if known else None
