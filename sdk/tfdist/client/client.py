"""The client: jobs of a cluster, with the rights of the user and without an intermediate server, or of this machine."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfdist.client.api_server import ApiServer
from tfdist.client.backend import Backend
from tfdist.client.cluster import Cluster
from tfdist.client.errors import NotPossible
from tfdist.client.job import Job
from tfdist.client.job_handle import JOBS, JobHandle
from tfdist.client.kubeconfig import connection
from tfdist.client.resources import Resources

if TYPE_CHECKING:
    # Only `submit` and `batch` need the models of the specification, their validation and packing: over a tenth of a
    # second to import. Jobs do not need the models of sweeps.
    from tfdist.api.v1 import TFDistJob
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

    def __init__(
        self,
        *,
        namespace: str | None = None,
        context: str | None = None,
        kubeconfig: str | os.PathLike[str] | None = None,
        local: bool | str | os.PathLike[str] = False,
    ) -> None:
        """Connect as kubectl does; no request is sent.

        Args:
            namespace: where the jobs are; default: the namespace of the context, or of the pod that this runs in.
            context: a context of the kubeconfig; default: the current context.
            kubeconfig: path of a file; default: the files that `KUBECONFIG` names, then `~/.kube/config`.
            local: run jobs as processes of this machine instead. Their run directories are below `.tfdist`, or below
                the folder of this path; a job's directory has its name.

        Raises:
            NoCluster: no kubeconfig exists, or it does not have the context.
        """
        self._backend = _this_machine(local) if local else _cluster(kubeconfig, context, namespace)
        self.namespace = self._backend.namespace

    @property
    def api(self) -> ApiServer:
        """The API server of the cluster.

        Raises:
            NotPossible: the jobs are processes of this machine.
        """
        if not isinstance(self._backend, Cluster):
            raise NotPossible("this needs a cluster, and the jobs of this client run on this machine")
        return self._backend.api

    @property
    def runs_here(self) -> bool:
        """Whether the jobs are processes of this machine."""
        return self._backend.runs_here

    @property
    def jobs(self) -> Resources[Job, JobHandle]:
        """The jobs of the namespace."""
        return Resources(self._backend, self.namespace, JOBS)

    @property
    def sweeps(self) -> "Resources[Sweep, SweepHandle]":
        """The sweeps of the namespace."""
        from tfdist.client.sweep_handle import SWEEPS  # noqa: PLC0415  see TYPE_CHECKING

        return Resources(self._backend, self.namespace, SWEEPS)

    def submit(
        self,
        job: "TFDistJob | Mapping[str, Any]",
        *,
        code: "str | os.PathLike[str] | CodeArchive | None" = None,
        set: Mapping[str, Any] | None = None,  # noqa: A002  the name of the command's option
        include: Sequence[str] = (),
        requirements: "Requirements | None" = None,
        code_store: str | None = None,
        config_maps: Sequence[Mapping[str, Any]] = (),
        dry_run: bool = False,
    ) -> JobHandle:
        """Create a job and what it needs, or nothing, as `jobs.submit` does.

        Raises:
            ClientError: see `Resources.submit`.
        """
        from tfdist.client.submission import manifest_of  # noqa: PLC0415  see TYPE_CHECKING

        manifest = manifest_of(job)
        return self.jobs.submit(
            manifest,
            code=code,
            set=set,
            include=include,
            requirements=requirements,
            code_store=code_store,
            config_maps=config_maps,
            dry_run=dry_run,
        )

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

    def in_namespace(self, namespace: str) -> "Client":
        """Return the client for the jobs of another namespace, with the same connection.

        Raises:
            NotPossible: the jobs are processes of this machine, which has no namespaces.
        """
        other = object.__new__(Client)
        other._backend, other.namespace = Cluster(self.api, namespace), namespace
        return other


def _cluster(kubeconfig: str | os.PathLike[str] | None, context: str | None, namespace: str | None) -> Backend:
    api = ApiServer(connection(kubeconfig, context))
    return Cluster(api, namespace or api.connection.namespace)


def _this_machine(folder: bool | str | os.PathLike[str]) -> Backend:
    from tfdist.client.this_machine import FOLDER, ThisMachine  # noqa: PLC0415  it imports what runs processes

    return ThisMachine(Path(FOLDER if isinstance(folder, bool) else folder).resolve())
