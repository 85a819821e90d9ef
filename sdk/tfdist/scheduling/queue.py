"""What a queue is: it decides whether the pods of a job may exist. Which of them start together, it does not decide."""

from collections.abc import Callable
from dataclasses import dataclass

from tfdist.api.gang_system import Availability, GangSystem
from tfdist.api.v1 import TFDistJob
from tfdist.render.installation import Installation
from tfdist.render.metadata import Manifest


@dataclass(frozen=True, slots=True)
class QueueWait:
    """Why a job may not run now: its queue has not admitted it, or evicts it."""

    message: str
    since: str = ""
    """Since when (RFC 3339), as far as Kueue reports it."""
    position: int | None = None
    """Position in the queue, from 1, if it is known."""


@dataclass(frozen=True, slots=True)
class Queue:
    """One system with queues; each has a module of its own, and an entry in `choice.QUEUES`."""

    system: GangSystem
    """Its name in `scheduling.gang` and in the status."""
    resource: str
    """Resource, with its group, of the objects that it admits. It is there if the API server serves this resource."""
    label: str
    """Label by which a job may name its queue, instead of by `scheduling.queue`."""
    name: Callable[[TFDistJob], str]
    """Returns the queue of a job."""
    manifest: Callable[[TFDistJob, Installation], Manifest]
    """Returns the object that it admits for a job, as far as the controller alone decides its content."""
    missing: Callable[[Availability], str]
    """Returns why it cannot admit a job, and what to do, while it is not served."""
    rules: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Rights of the controller: API group, resource and verbs."""

    def is_named_by(self, job: TFDistJob) -> bool:
        """Return whether a job names a queue, by its field or by the label."""
        return job.spec.scheduling.queue is not None or self.label in job.metadata.labels
