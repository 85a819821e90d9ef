"""A cluster as the backend of the client: its API server stores the objects."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfdist.client import events, logs
from tfdist.client.api_server import MERGE_PATCH, ApiServer, Json, object_path
from tfdist.client.backend import Kind
from tfdist.client.container_log import LogLine, LogOptions
from tfdist.client.errors import NotFound
from tfdist.client.events import JobEvent
from tfdist.client.job import Job
from tfdist.client.job_handle import JOBS
from tfdist.client.logs import LogEvent
from tfdist.client.replica_pods import pods_of
from tfdist.client.watch import watch_object

if TYPE_CHECKING:
    from tfdist.client.submission import Submission  # see `backend`


class Cluster:
    """The jobs, sweeps and pods of a cluster, with the rights of the user."""

    runs_here = False

    def __init__(self, api: ApiServer, namespace: str) -> None:
        self.api, self.namespace = api, namespace

    def create(self, kind: Kind, submission: "Submission", *, dry_run: bool) -> Json:  # noqa: ARG002  it has its kind
        """See `Backend`."""
        from tfdist.client.creation import create  # noqa: PLC0415  see TYPE_CHECKING

        return create(self.api, submission, dry_run=dry_run)

    def get(self, kind: Kind, namespace: str, name: str) -> Json:
        """See `Backend`."""
        with _naming(kind, namespace, name):
            return self.api.request("GET", object_path(kind.path(namespace), name))

    def items(self, kind: Kind, namespace: str | None, selector: str | None) -> Iterator[Json]:
        """See `Backend`."""
        return self.api.items(kind.path(namespace), {"labelSelector": selector})

    def watch(self, kind: Kind, namespace: str, name: str, seconds: float | None) -> Iterator[Json]:
        """See `Backend`: through cut connections and restarts of the API server."""
        with _naming(kind, namespace, name):
            yield from watch_object(self.api, kind.path(namespace), name, seconds=seconds)

    def patch(self, kind: Kind, namespace: str, name: str, change: Json) -> Json:
        """See `Backend`."""
        with _naming(kind, namespace, name):
            path = object_path(kind.path(namespace), name)
            return self.api.request("PATCH", path, change, content_type=MERGE_PATCH)

    def delete(self, kind: Kind, namespace: str, name: str, uid: str | None) -> None:
        """See `Backend`."""
        with _naming(kind, namespace, name):
            self.api.delete(object_path(kind.path(namespace), name), uid=uid)

    def pods(self, job: Job) -> list[Json]:
        """See `Backend`."""
        return pods_of(self.api, job.namespace, job.name)

    def lines(self, job: Job, options: LogOptions) -> Iterator[LogLine]:
        """See `Backend`: in order of time."""
        return logs.read(self.api, job, options)

    def follow(self, job: Job, options: LogOptions) -> Iterator[LogEvent]:
        """See `Backend`: the end of each log too."""
        return logs.follow(self.api, lambda name: map(Job, self.watch(JOBS, job.namespace, name, None)), job, options)

    def events(self, job: Job, *, follow: bool) -> Iterator[JobEvent]:
        """See `Backend`: those that the cluster still has, by default for an hour."""
        if not follow:
            return iter(events.read(self.api, job))
        return events.follow(self.api, job, lambda: Job(self.get(JOBS, job.namespace, job.name)).uid == job.uid)


@contextlib.contextmanager
def _naming(kind: Kind, namespace: str, name: str) -> Iterator[None]:
    """Name the object and the namespace in the error about an object that does not exist."""
    try:
        yield
    except NotFound:
        raise NotFound(f'{kind.noun} "{name}" not found in namespace "{namespace}"') from None
