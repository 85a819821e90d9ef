"""The client: jobs of a cluster, with the rights of the user and without an intermediate server."""

import builtins
import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tfdist.client import events
from tfdist.client.api_server import MERGE_PATCH, ApiServer, Json
from tfdist.client.errors import NotFound, NotPossible
from tfdist.client.events import Event
from tfdist.client.handle import JobHandle
from tfdist.client.job import FINAL, Job, with_warning
from tfdist.client.kubeconfig import connection
from tfdist.client.paths import jobs_path, object_path
from tfdist.client.watch import watch_object
from tfdist.messages import suggest
from tfdist.render.names import JOB_LABEL, RESTART_ANNOTATION
from tfdist.timestamps import rfc3339

if TYPE_CHECKING:
    # Only `submit` needs the models of the specification, validation and packing: over a tenth of a second to import.
    from tfdist.api.v1 import TFDistJob
    from tfdist.client.batch import BatchHandle
    from tfdist.client.code_archive import CodeArchive
    from tfdist.client.submission import Submission
    from tfdist.client.sweeps import Sweeps


class Client:
    """Submits, finds and controls jobs.

    >>> client = Client()
    >>> job = client.submit(manifest)
    >>> result = job.wait(timeout=3600)
    """

    def __init__(
        self,
        *,
        namespace: str | None = None,
        context: str | None = None,
        kubeconfig: str | os.PathLike[str] | None = None,
    ) -> None:
        """Connect as kubectl does; no request is sent.

        Args:
            namespace: of the jobs; by default that of the context, or of the pod that this runs in.
            context: of the kubeconfig; by default the current one.
            kubeconfig: file; by default those of `KUBECONFIG`, then `~/.kube/config`.

        Raises:
            NoCluster: there is no kubeconfig, or no such context in it.
        """
        self.api = ApiServer(connection(kubeconfig, context))
        self.namespace = namespace or self.api.connection.namespace

    @property
    def sweeps(self) -> "Sweeps":
        """The sweeps of the namespace."""
        from tfdist.client.sweeps import Sweeps  # noqa: PLC0415  jobs do not need the models of sweeps

        return Sweeps(self)

    def submit(
        self,
        job: "TFDistJob | Mapping[str, Any]",
        *,
        code: "str | os.PathLike[str] | CodeArchive | None" = None,
        set: Mapping[str, Any] | None = None,  # noqa: A002  the name of the command's option
        include: Sequence[str] = (),
        config_maps: Sequence[Mapping[str, Any]] = (),
        dry_run: bool = False,
    ) -> JobHandle:
        """Create a job and what it needs, or nothing.

        Args:
            job: the manifest. Without a namespace it is created in that of the client.
            code: a folder, or one script, that becomes `training.source.archive`: a ConfigMap that the job owns.
            include: patterns, as in `.gitignore`, of files in the folder that go with the job although they may
                contain credentials; others of those are left out and named in a warning.
            set: values of fields by their paths below `spec`, such as `{"training.config.epochs": 3}`. With `set` or
                `code` the job is validated before the first request.
            config_maps: ConfigMaps that the job refers to. They are created, or must have the same content.
            dry_run: have the API server check the objects without storing them.

        Raises:
            AlreadyExists: there is a job of this name, or a ConfigMap with another content.
            Invalid: the job is invalid, or the API server or the controller's webhook rejects it.
            CodeError: the code cannot be packed.
            ClientError: a request failed.
        """
        from tfdist.client import submission  # noqa: PLC0415  see TYPE_CHECKING

        manifest = submission.manifest_of(job)
        prepared = submission.prepare_changed(manifest, self.namespace, code, set or {}, config_maps, include)
        return self.create(prepared, dry_run=dry_run)

    def create(self, submission: "Submission", *, dry_run: bool = False) -> JobHandle:
        """Create a job and its ConfigMaps, or nothing; as `submit`, for a job that has been prepared.

        Raises:
            ClientError: a request failed.
        """
        from tfdist.client.creation import create  # noqa: PLC0415  see TYPE_CHECKING

        placed = submission.in_namespace(self.namespace)
        return self.handle(Job(create(self.api, placed, dry_run=dry_run)))

    def get(self, name: str) -> Job:
        """Return a job.

        Raises:
            NotFound: there is none of this name in the namespace.
            ClientError: the request failed.
        """
        with self._naming(name):
            return Job(self.api.request("GET", self._path(name)))

    def attach(self, name: str) -> JobHandle:
        """Return the handle of a job that exists.

        Raises:
            NotFound: there is none of this name in the namespace.
            ClientError: the request failed.
        """
        return self.handle(self.get(name))

    def delete(self, name: str, *, uid: str | None = None) -> None:
        """Delete a job; its pods end within their grace periods.

        Args:
            name: of the job.
            uid: delete the job only if it is this one.

        Raises:
            NotFound: there is none of this name in the namespace.
            ClientError: the request failed.
        """
        with self._naming(name):
            self.api.delete(self._path(name), uid=uid)

    def suspend(self, name: str) -> Job:
        """Have a job save a checkpoint and stop; `resume` continues from there.

        A warning reports what a job without checkpoints loses, which is `loss` of the job.

        Raises:
            NotPossible: the job has finished.
        """
        self._unfinished(name, "suspended")
        return with_warning(self.patch(name, {"spec": {"runPolicy": {"suspend": True}}}))

    def resume(self, name: str) -> Job:
        """Continue a suspended job from its last checkpoint.

        Raises:
            NotPossible: the job has finished.
        """
        self._unfinished(name, "resumed")
        return self.patch(name, {"spec": {"runPolicy": {"suspend": False}}})

    def restart(self, name: str) -> Job:
        """Restart the gang of a job; the restart is not counted. A warning reports a loss as of `suspend`.

        Raises:
            NotPossible: the job has finished or is suspended.
        """
        job = self._unfinished(name, "restarted")
        if job.is_suspended:
            raise NotPossible(f'job "{name}" is suspended: resume it instead; it starts with its newest specification')
        change = {"metadata": {"annotations": {RESTART_ANNOTATION: rfc3339(datetime.now(UTC))}}}
        return with_warning(self.patch(name, change))

    def scale(self, name: str, workers: int) -> Job:
        """Set the number of workers of a job that is suspended or has not started; `resume` starts it with them.

        Raises:
            NotPossible: the job has finished, or has no workers.
            Invalid: the job is running.
        """
        job = self._unfinished(name, "scaled")
        if "worker" not in job.spec:
            raise NotPossible(f'job "{name}" has no workers: spec.worker is not set')
        return self.patch(name, {"spec": {"worker": {"replicas": workers}}})

    def _unfinished(self, name: str, done: str) -> Job:
        """Return a job that a change still has an effect on."""
        job = self.get(name)
        if job.phase in FINAL:
            raise NotPossible(f'job "{name}" cannot be {done}: it has finished ({job.phase})')
        return job

    def patch(self, name: str, change: Json) -> Job:
        """Change a job by a merge patch (RFC 7396), and return it.

        Raises:
            NotFound: there is none of this name in the namespace.
            Invalid: the changed job is invalid.
            ClientError: the request failed.
        """
        with self._naming(name):
            return Job(self.api.request("PATCH", self._path(name), change, content_type=MERGE_PATCH))

    def pods(self, name: str) -> list[Json]:
        """Return the pods of a job as JSON, those of earlier attempts included if they are kept."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        return list(self.api.items(path, {"labelSelector": f"{JOB_LABEL}={name}"}))

    def watch(self, name: str, *, seconds: float | None = None) -> Iterator[Job]:
        """Yield a job, and again after each change, through cut connections and restarts of the API server.

        Args:
            name: of the job.
            seconds: end after so many; by default never.

        Raises:
            NotFound: there is no such job, or it has been deleted.
            ClientError: a request failed.
        """
        with self._naming(name):
            for stored in watch_object(self.api, jobs_path(self.namespace), name, seconds=seconds):
                yield Job(stored)

    def events(self, name: str) -> builtins.list[Event]:
        """Return the events of a job and its pods that the cluster still has, by default for an hour; newest last.

        Raises:
            NotFound: there is no such job.
            ClientError: a request failed.
        """
        return events.read(self.api, self.get(name))

    def follow_events(self, name: str) -> Iterator[Event]:
        """Yield the events of a job and its pods, then each new one, until the job is deleted.

        Raises:
            NotFound: there is no such job.
            ClientError: a request failed.
        """
        job = self.get(name)
        return events.follow(self.api, job, lambda: self.get(name).uid == job.uid)

    def list(self, *, all_namespaces: bool = False, selector: str | None = None) -> list[Job]:
        """Return the jobs of the namespace, or of all, by namespace and name.

        Args:
            all_namespaces: whether those of all namespaces are returned.
            selector: of their labels, such as `team=vision`.

        Raises:
            ClientError: the request failed.
        """
        path = jobs_path(None if all_namespaces else self.namespace)
        jobs = [Job(manifest) for manifest in self.api.items(path, {"labelSelector": selector})]
        return sorted(jobs, key=lambda job: (job.namespace, job.name))

    def batch(self, name: str) -> "BatchHandle":
        """Return a batch of jobs that `map` of a function has submitted, from this or another process.

        Raises:
            NotFound: there is no job of it in the namespace.
            ClientError: the request failed.
        """
        from tfdist.client.batch import find_batch  # noqa: PLC0415  see TYPE_CHECKING

        return find_batch(self, name)

    def similar(self, name: str) -> str | None:
        """Return the most similar name of a job of the namespace, among its first 500; None if none is similar.

        Raises:
            ClientError: the request failed.
        """
        jobs = self.api.request("GET", jobs_path(self.namespace), query={"limit": 500})["items"]
        return suggest(name, (job["metadata"]["name"] for job in jobs))

    def handle(self, job: Job) -> JobHandle:
        """Return the handle of a job that has been read."""
        return JobHandle(self if job.namespace == self.namespace else self.in_namespace(job.namespace), job)

    def in_namespace(self, namespace: str) -> "Client":
        """Return the client for the jobs of another namespace, with the same connection."""
        other = object.__new__(Client)
        other.api, other.namespace = self.api, namespace
        return other

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Name the job and the namespace where the API server names a resource."""
        try:
            yield
        except NotFound:
            raise NotFound(f'job "{name}" not found in namespace "{self.namespace}"') from None

    def _path(self, name: str) -> str:
        return object_path(jobs_path(self.namespace), name)
