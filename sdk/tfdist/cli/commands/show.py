"""`tfdist list`, `get` and `describe`: jobs and sweeps as rows of a table, as they are stored, and as text."""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions
from tfdist.cli.description import description
from tfdist.cli.exit_code import CommandExitCode
from tfdist.cli.find import suggesting
from tfdist.cli.kinds import JOB, Reference, kind_of
from tfdist.cli.object_table import document_of, write_document, write_table
from tfdist.cli.options import AllNamespaces, Name
from tfdist.cli.output import has_colour, message, width_of, write_lines
from tfdist.client.errors import ClientError

if TYPE_CHECKING:
    from tfdist.client.client import Client
    from tfdist.client.events import JobEvent
    from tfdist.client.job_handle import JobHandle

Output = Annotated[
    Literal["wide", "json", "yaml", "name"] | None,
    typer.Option("-o", "--output", help="Output format; default: a table.", show_default=False),
]


@command
def list_(
    connection: ClusterOptions,
    word: Annotated[
        str | None, typer.Argument(metavar="KIND", help="`jobs` (default) or `sweeps`.", show_default=False)
    ] = None,
    *,
    all_namespaces: AllNamespaces = False,
    selector: Annotated[
        str | None,
        typer.Option("-l", "--selector", metavar="SELECTOR", help="Labels, such as team=vision.", show_default=False),
    ] = None,
    output: Output = None,
) -> int:
    """List jobs or sweeps.

    On a terminal each job or sweep is one line, with long cells cut; elsewhere nothing is cut.

    Exits 0, also if there are none, or 2 if the request fails.
    """
    kind = kind_of(word) if word else connection.kind
    client = connection.client()
    found = kind.of(client).list(all_namespaces=all_namespaces, selector=selector)
    if output in {"json", "yaml"}:
        items = [document_of(kind, stored) for stored in found]
        write_document(sys.stdout, {"apiVersion": "v1", "kind": "List", "items": items}, output)
    elif found:
        write_table(sys.stdout, kind, found, output, datetime.now(UTC), namespaces=all_namespaces)
    else:
        place = "" if all_namespaces else f" in {client.namespace} namespace."
        message(f"No {kind.noun}s found{place}")
    return CommandExitCode.OK


@command
def get(connection: ClusterOptions, name: Name, *, output: Output = None) -> int:
    """Show one job or sweep.

    `json` and `yaml` print it as the cluster stores it, without `managedFields`.

    Exits 0, or 2 if the job or sweep does not exist or the request fails.
    """
    kind, own_name = connection.find(name)
    objects = kind.of(connection.client())
    with suggesting(objects, own_name):
        stored = objects.get(own_name)
    if output in {"json", "yaml"}:
        write_document(sys.stdout, document_of(kind, stored), output)
    else:
        write_table(sys.stdout, kind, [stored], output, datetime.now(UTC))
    return CommandExitCode.OK


@command
def describe(connection: ClusterOptions, name: Name) -> int:
    """Show everything about a job or sweep.

    Of a job: replicas, progress, results, restarts, the last failure with its root cause and what to do about it,
    conditions, and the last events of the job and its pods. Of a sweep: metric, search, trials, the best trials, and
    conditions.

    Exits 0, or 2 if the job or sweep does not exist or a request fails.
    """
    return print_description(connection.client(), connection.find(name))


def print_description(client: "Client", reference: Reference) -> int:
    """Print the description of a job or sweep and return the exit code."""
    kind, name = reference
    objects = kind.of(client)
    with suggesting(objects, name):
        stored = objects.get(name)
    events = _events(client.jobs.handle(stored)) if kind is JOB else ()
    width, colour = width_of(sys.stdout), has_colour(sys.stdout)
    write_lines(description(kind, stored, events, datetime.now(UTC), width=width, colour=colour))
    return CommandExitCode.OK


def _events(handle: "JobHandle") -> "list[JobEvent] | str":
    """Return the events of a job, or why they cannot be read: the rest of a description is still of use."""
    try:
        return handle.events()
    except ClientError as error:
        return f"not available: {error}"
