"""What a look at a job results in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfdist.contract import Role

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the installation decides for every job."""

    trainer_image: str
    """Image of a job that names none."""
    progress_write_seconds: float = 10.0
    """Least time between two writes of a status in which only counters moved."""
    settle_seconds: float = 10.0
    """How long the other replicas may take to end by themselves after the leader's success."""
    image_deadline_seconds: float = 300.0
    """How long a replica may be unable to start before the job fails, where it sets no deadline itself."""
    cluster_domain: str = ""
    """Put behind the replicas' addresses, such as `cluster.local`; pods search for it by themselves without it."""
    namespace: str = "tfdist-system"
    """The controller's own, from which alone the report ports of jobs can be reached."""
    pod_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Part of a pod template, below what every job says."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a job; `warning` or normal. `identity` tells apart two of the same reason."""

    reason: str
    message: str
    warning: bool = False
    identity: str = ""
    cause: str = ""
    """Class of the root cause, of an event that tells of a restart."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A change of a pod's metadata, as a JSON merge patch."""

    pod: str
    body: Manifest


@dataclass(frozen=True, slots=True)
class Question:
    """A replica to be asked where it stands."""

    role: Role
    index: int
    ip: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything to do for one job, in this order."""

    status: Manifest | None = None
    """The whole status to store, or None when the stored one will do."""
    objects: tuple[Manifest, ...] = ()
    """Objects to be made what these say: Service, NetworkPolicy."""
    creates: tuple[Manifest, ...] = ()
    """Pods."""
    patches: tuple[Patch, ...] = ()
    deletes: tuple[str, ...] = ()
    """Names of pods."""
    tensorboard: tuple[Manifest, ...] = ()
    """Objects of the job's TensorBoard to be made what these say; a refusal of them stops nothing else."""
    remove_tensorboard: bool = False
    sweep: bool = False
    """Remove the Service and the NetworkPolicy."""
    delete_job: bool = False
    ask: tuple[Question, ...] = ()
    """Replicas of a stalled attempt, whose answers the next look needs."""
    ask_about: str = ""
    """Which stall they are asked about."""
    events: tuple[Event, ...] = ()
    completed: Mapping[str, tuple[int, frozenset[str]]] = field(default_factory=dict)
    """Who has ended with success, by gang, with the attempt; to be remembered until the status says it."""
    requeue_after_seconds: float | None = None
    """When to look again though nothing has happened."""
