"""What a look at a job results in."""

from dataclasses import dataclass
from typing import Any

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
class Plan:
    """Everything to do for one job, in this order: status, service, creations and deletions, events."""

    status: Manifest | None = None
    """The whole status to store, or None when the stored one will do."""
    service: Manifest | None = None
    creates: tuple[Manifest, ...] = ()
    deletes: tuple[str, ...] = ()
    """Names of pods."""
    events: tuple[Event, ...] = ()
    requeue_after_seconds: float | None = None
    """When to look again though nothing has happened."""
