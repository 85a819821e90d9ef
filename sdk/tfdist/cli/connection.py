"""The cluster, namespace and kind of object that a command works on, and the jobs and sweeps there by their names."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfdist.cli.errors import CommandError
from tfdist.cli.kinds import JOB, SWEEP, Kind, Reference
from tfdist.client.errors import ClientError, NotFound

if TYPE_CHECKING:
    from tfdist.client.client import Client
    from tfdist.client.job_handle import JobHandle
    from tfdist.client.resources import Resources
    from tfdist.client.sweep_handle import SweepHandle


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options `--namespace`, `--context` and `--kubeconfig`, None for the defaults of kubectl."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None
    kind: Kind = JOB
    """Kind of a name without one: job, or in the group `tfdist sweep` sweep."""

    def client(self) -> "Client":
        """Return the client; no request is sent.

        Raises:
            ClientError: there is no kubeconfig, or it has no such context.
            ModuleNotFoundError: the client is not installed.
        """
        from tfdist.client.client import Client  # noqa: PLC0415  half a second, which commands without a cluster save

        return Client(namespace=self.namespace, context=self.context, kubeconfig=self.kubeconfig)

    def find(self, text: str) -> Reference:
        """Return the kind and the name of `NAME` or `KIND/NAME`.

        Raises:
            CommandError: the kind is neither a job nor a sweep.
        """
        return Reference.parse(text, self.kind)


def attach_job(client: "Client", name: str) -> "JobHandle":
    """Return the handle of a job, by `NAME` or `job/NAME`.

    Raises:
        CommandError: there is no such job, or it is a sweep.
        ClientError: the request failed.
    """
    name = name_of(name, JOB)
    with suggesting(client.jobs, name):
        return client.jobs.attach(name)


def attach_sweep(client: "Client", name: str) -> "SweepHandle":
    """Return the handle of a sweep, by `NAME` or `sweep/NAME`.

    Raises:
        CommandError: there is no such sweep, or it is a job.
        ClientError: the request failed.
    """
    name = name_of(name, SWEEP)
    with suggesting(client.sweeps, name):
        return client.sweeps.attach(name)


def name_of(text: str, kind: Kind) -> str:
    """Return the name in `NAME` or `KIND/NAME`.

    Raises:
        CommandError: it is the name of another kind.
    """
    found = Reference.parse(text, kind)
    if found.kind is not kind:
        raise CommandError(f"{text}: this command needs a {kind.noun}")
    return found.name


@contextlib.contextmanager
def suggesting(objects: "Resources[Any, Any]", name: str) -> Iterator[None]:
    """Add a similar name to the error about a job or sweep that does not exist.

    Raises:
        CommandError: there is no object of this name.
    """
    try:
        yield
    except NotFound as error:
        better = None
        with contextlib.suppress(ClientError):  # a user without the right to list gets no suggestion
            better = objects.similar(name)
        hint = f'; did you mean "{better}"?' if better else ""
        raise CommandError(f"{error}{hint}") from None


def to_copy(client: "Client", *words: str) -> str:
    """Return a command for the user to copy, with the namespace unless the context already has it."""
    is_current = client.namespace == client.api.connection.namespace
    return " ".join(["tfdist", *words, *([] if is_current else ["-n", client.namespace])])
