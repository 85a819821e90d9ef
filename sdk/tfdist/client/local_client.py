"""The client for jobs that are processes of this machine: the same methods, without a cluster."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final, NoReturn

from tfdist.client.client import Client
from tfdist.client.errors import NotPossible
from tfdist.client.local_jobs import NAMESPACE, LocalJobs
from tfdist.client.log_stream import LogLine

_FOLDER: Final = ".tfdist"


class LocalClient(Client):
    """Runs jobs as processes of this machine.

    >>> client = LocalClient()
    >>> client.submit(manifest, code=".").wait()
    """

    _runs_here: ClassVar[bool] = True

    def __init__(self, folder: str | Path = _FOLDER) -> None:
        """Use the run directories below a folder; a job's directory has its name."""
        self.folder = Path(folder).resolve()
        self.namespace = NAMESPACE

    @property
    def jobs(self) -> LocalJobs:
        """The jobs of the folder."""
        return LocalJobs(self.folder)

    @property
    def sweeps(self) -> NoReturn:
        """Raise an error: the controller of a cluster runs sweeps."""
        raise NotPossible("sweeps need a cluster: tfdist.Client().sweeps")

    def logs(
        self, name: str, role: str | None = None, index: int | None = None, *, follow: bool = False
    ) -> Iterator[LogLine]:
        """Yield the lines of the replicas' logs, like the handle's `logs`.

        Args:
            name: the job's name.
            role: only replicas of this role, such as `worker`; default: all roles.
            index: only the replica with this index in its role; default: all replicas.
            follow: continue as lines are written, until the job has ended.

        Raises:
            NotFound: the job does not exist, or has been deleted.
        """
        return self.attach(name).logs(role, index, follow=follow)

    def cancel(self, name: str) -> None:
        """Stop a job within its grace period, and remove it from the list; its logs and volumes stay.

        Raises:
            NotFound: the folder has no job of this name.
        """
        self.jobs.delete(name)

    def in_namespace(self, namespace: str) -> Client:
        """Raise an error: only a cluster has namespaces."""
        raise NotPossible(f"there is no namespace {namespace} on this machine")
