"""The client: jobs of a cluster, with the rights of the user and without an intermediate server."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tfdist.client.api_server import ApiServer
from tfdist.client.job import Job
from tfdist.client.job_handle import JOBS, JobHandle
from tfdist.client.kubeconfig import connection
from tfdist.client.resources import Resources

if TYPE_CHECKING:
    # Only `submit` and `batch` need the models of the specification, their validation and packing: over a tenth of a
    # second to import. Jobs do not need the models of sweeps.
    from tfdist.api.v1 import TFDistJob
    from tfdist.client.batch import BatchHandle
    from tfdist.client.code_archive import CodeArchive
    from tfdist.client.requirements import Requirements
    from tfdist.client.sweep import Sweep
    from tfdist.client.sweep_handle import SweepHandle


class Client:
    """Submits, finds and controls jobs.

    >>> client = Client()
    >>> job = client.submit(manifest)
    >>> result = job.wait(timeout=3600)
    """

    _runs_here: ClassVar[bool] = False
    """Whether jobs run on this machine, with its Python, instead of in the trainer's image."""

    def __init__(
        self,
        *,
        namespace: str | None = None,
        context: str | None = None,
        kubeconfig: str | os.PathLike[str] | None = None,
    ) -> None:
        """Connect as kubectl does; no request is sent.

        Args:
            namespace: where the jobs are; default: the namespace of the context, or of the pod that this runs in.
            context: a context of the kubeconfig; default: the current context.
            kubeconfig: path of a file; default: the files that `KUBECONFIG` names, then `~/.kube/config`.

        Raises:
            NoCluster: no kubeconfig exists, or it does not have the context.
        """
        self.api = ApiServer(connection(kubeconfig, context))
        self.namespace = namespace or self.api.connection.namespace

    @property
    def jobs(self) -> Resources[Job, JobHandle]:
        """The jobs of the namespace."""
        return Resources(self.api, self.namespace, JOBS)

    @property
    def sweeps(self) -> "Resources[Sweep, SweepHandle]":
        """The sweeps of the namespace."""
        from tfdist.client.sweep_handle import SWEEPS  # noqa: PLC0415  see TYPE_CHECKING

        return Resources(self.api, self.namespace, SWEEPS)

    def submit(
        self,
        job: "TFDistJob | Mapping[str, Any]",
        *,
        code: "str | os.PathLike[str] | CodeArchive | None" = None,
        set: Mapping[str, Any] | None = None,  # noqa: A002  the name of the command's option
        include: Sequence[str] = (),
        requirements: "Requirements | None" = None,
        config_maps: Sequence[Mapping[str, Any]] = (),
        dry_run: bool = False,
    ) -> JobHandle:
        """Create a job and what it needs, or nothing.

        Args:
            job: the manifest. Without a namespace it is created in the client's namespace.
            code: a folder, or one script, that becomes `training.source.archive`: a ConfigMap that the job owns.
            include: patterns, as in `.gitignore`, of files in the folder that go with the job although they may
                contain credentials; other such files are left out, and a warning names them.
            requirements: packages that the pods install before the script starts: a file of pip, or a list such as
                `["einops>=0.8"]`. They are locked now, with the hash of each wheel, and go with `code`.
            set: values of fields by their paths below `spec`, such as `{"training.config.epochs": 3}`. With `set` or
                `code` the job is validated before the first request.
            config_maps: ConfigMaps that the job refers to. They are created, or must have the same content.
            dry_run: have the API server check the objects without storing them.

        Raises:
            AlreadyExists: a job of this name exists, or a ConfigMap with other content.
            Invalid: the job is invalid, or the API server or the controller's webhook rejects it.
            CodeError: the code cannot be packed.
            RequirementsError: no wheels satisfy the requirements, or they conflict with the packages of the image.
            ClientError: a request failed.
        """
        from tfdist.client import submission  # noqa: PLC0415  see TYPE_CHECKING

        manifest = submission.manifest_of(job)
        prepared = submission.prepare_changed(
            manifest, self.namespace, code, set or {}, config_maps, include, requirements, here=self._runs_here
        )
        return self.jobs.create(prepared, dry_run=dry_run)

    def get(self, name: str) -> Job:
        """Return a job.

        Raises:
            NotFound: the namespace has no job of this name.
            ClientError: the request failed.
        """
        return self.jobs.get(name)

    def attach(self, name: str) -> JobHandle:
        """Return the handle of a job that exists.

        Raises:
            NotFound: the namespace has no job of this name.
            ClientError: the request failed.
        """
        return self.jobs.attach(name)

    def list(self, *, all_namespaces: bool = False, selector: str | None = None) -> list[Job]:
        """Return the jobs of the namespace, or of all namespaces, sorted by namespace and name.

        Args:
            all_namespaces: whether to return the jobs of all namespaces.
            selector: labels that the jobs must have, such as `team=vision`.

        Raises:
            ClientError: the request failed.
        """
        return self.jobs.list(all_namespaces=all_namespaces, selector=selector)

    def batch(self, name: str) -> "BatchHandle":
        """Return a batch of jobs that `map` of a function has submitted, from this or another process.

        Raises:
            NotFound: the namespace has no job of this batch.
            ClientError: the request failed.
        """
        from tfdist.client.batch import find_batch  # noqa: PLC0415  see TYPE_CHECKING

        return find_batch(self.jobs, name)

    def in_namespace(self, namespace: str) -> "Client":
        """Return the client for the jobs of another namespace, with the same connection."""
        other = object.__new__(Client)
        other.api, other.namespace = self.api, namespace
        return other
