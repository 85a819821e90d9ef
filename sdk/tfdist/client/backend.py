"""Where jobs and sweeps are stored and run: a cluster, or this machine."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from tfdist.client.api_server import Json
from tfdist.client.container_log import LogLine, LogOptions
from tfdist.client.events import JobEvent
from tfdist.client.job import Job
from tfdist.client.logs import LogEvent
from tfdist.client.stored import Workload

if TYPE_CHECKING:
    # Creating alone needs the models of the specification and their validation: over a tenth of a second to import.
    from tfdist.client.submission import Submission

T = TypeVar("T", bound=Workload)
H_co = TypeVar("H_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ObjectKind(Generic[T, H_co]):
    """A kind of object, and the classes that represent its objects."""

    noun: str
    """Its name in messages: `job`."""
    api_version: str
    kind: str
    path: Callable[[str | None], str]
    """Returns the path of the objects of a namespace, or with None of all namespaces."""
    stored: Callable[[Json], T]
    handle: Callable[[Any, T], H_co]
    """Returns the handle of an object of a `Resources`."""


Kind = ObjectKind[Any, Any]


class Backend(Protocol):
    """Stores objects as JSON, and reads what the replicas of a job write.

    Every method raises a `ClientError` if a request fails, `NotFound` if there is no object of the name, and
    `NotPossible` if the backend does not support the request.
    """

    namespace: str
    """Where objects are created that name no other namespace."""

    runs_here: bool
    """Whether jobs run on this machine, with its Python, instead of in the trainer's image."""

    def create(self, kind: Kind, submission: "Submission", *, dry_run: bool) -> Json:
        """Create an object with the ConfigMaps that it needs, or nothing, and return it."""

    def get(self, kind: Kind, namespace: str, name: str) -> Json:
        """Return an object."""

    def items(self, kind: Kind, namespace: str | None, selector: str | None) -> Iterator[Json]:
        """Yield the objects of a namespace, or with None of all, that have the labels of a selector."""

    def watch(self, kind: Kind, namespace: str, name: str, seconds: float | None) -> Iterator[Json]:
        """Yield an object, and again after each change, for a time or forever."""

    def patch(self, kind: Kind, namespace: str, name: str, change: Json) -> Json:
        """Change an object by a merge patch (RFC 7396), and return it."""

    def delete(self, kind: Kind, namespace: str, name: str, uid: str | None) -> None:
        """Delete an object, or with a UID only that one."""

    def pods(self, job: Job) -> list[Json]:
        """Return the pods of a job, including kept pods of earlier attempts."""

    def lines(self, job: Job, options: LogOptions) -> Iterator[LogLine]:
        """Yield the lines that the logs of a job have now."""

    def follow(self, job: Job, options: LogOptions) -> Iterator[LogEvent]:
        """Yield a job after each change, and lines of its logs as they arrive, until it has ended."""

    def events(self, job: Job, *, follow: bool) -> Iterator[JobEvent]:
        """Yield the events of a job and its pods, oldest first, and each new one if `follow`."""
