"""Jobs and sweeps by the names on the command line; a missing one is reported with a similar name."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tfdist.api.resource import GROUP, KIND
from tfdist.api.sweep_resource import SWEEP_KIND
from tfdist.cli.errors import CommandError
from tfdist.client.errors import ClientError, NotFound

if TYPE_CHECKING:
    from tfdist.client.client import Client
    from tfdist.client.handle import JobHandle
    from tfdist.client.sweeps import SweepHandle, Sweeps

RESOURCE: Final = KIND.lower()
FULL_RESOURCE: Final = f"{RESOURCE}.{GROUP}"
SWEEP_RESOURCE: Final = SWEEP_KIND.lower()
FULL_SWEEP_RESOURCE: Final = f"{SWEEP_RESOURCE}.{GROUP}"


def attach(client: "Client", name: str) -> "JobHandle":
    """Return the handle of a job.

    Raises:
        CommandError: there is none of this name.
        ClientError: the request failed.
    """
    with suggesting(client, name):
        return client.attach(name)


def attach_sweep(client: "Client", name: str) -> "SweepHandle":
    """Return the handle of a sweep, by its name or `tfdistsweep/NAME`.

    Raises:
        CommandError: there is none of this name.
        ClientError: the request failed.
    """
    name = without_kind(name)
    with suggesting(client.sweeps, name):
        return client.sweeps.attach(name)


@contextlib.contextmanager
def suggesting(client: "Client | Sweeps", name: str) -> Iterator[None]:
    """Add a similar name to the error about a job or sweep that does not exist.

    Raises:
        CommandError: there is none of this name.
    """
    try:
        yield
    except NotFound as error:
        better = None
        with contextlib.suppress(ClientError):  # without the right to list them there is no suggestion
            better = client.similar(name)
        hint = f'; did you mean "{better}"?' if better else ""
        raise CommandError(f"{error}{hint}") from None


def command(client: "Client", *words: str) -> str:
    """Return a command for the user to copy, with the namespace if it is not that of the context."""
    is_current = client.namespace == client.api.connection.namespace
    return " ".join(["tfdist", *words, *([] if is_current else ["-n", client.namespace])])


def without_kind(name: str) -> str:
    """Return the name in `tfdistjob/NAME` or `tfdistjob.tfdist.dev/NAME`, which `-o name` prints, or in NAME.

    The same of a sweep.
    """
    kind, slash, name_part = name.partition("/")
    return name_part if slash and kind in {RESOURCE, FULL_RESOURCE, SWEEP_RESOURCE, FULL_SWEEP_RESOURCE} else name
