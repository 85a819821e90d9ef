"""`tfdist list`, `get`, `describe` and `events`: jobs and sweeps as a table, as they are stored, and as text."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions, attach_job, suggesting
from tfdist.cli.description import description
from tfdist.cli.errors import CommandExitCode
from tfdist.cli.kinds import JOB, Reference, kind_of
from tfdist.cli.object_table import document_of, write_document, write_table
from tfdist.cli.options import AllNamespaces, JobName, Name
from tfdist.cli.output import YELLOW, has_colour, message, width_of, write_lines
from tfdist.cli.tables import Column, Row, ages, format_rows, headings_of, table, text_rows, widths_of
from tfdist.client.errors import ClientError, NotFound
from tfdist.timestamps import rfc3339

if TYPE_CHECKING:
    from tfdist.client.client import Client
    from tfdist.client.events import JobEvent
    from tfdist.client.job_handle import JobHandle


Output = Annotated[
    Literal["wide", "json", "yaml", "name"] | None,
    typer.Option("-o", "--output", help="Output format; default: a table.", show_default=False),
]

_TYPE: Final = Column("TYPE", colours={"Warning": YELLOW}, width=7)
_COLUMNS: Final = (Column("LAST SEEN"), _TYPE, Column("REASON"), Column("OBJECT"), Column("MESSAGE"))
_TIME: Final = 20
_REASON: Final = 20
_SUFFIX: Final = len("pod/-worker-000-r00")
"""Widths of a table that is printed event by event, for usual reasons and pods."""


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
    events = _events_of(client.jobs.handle(stored)) if kind is JOB else ()
    width, colour = width_of(sys.stdout), has_colour(sys.stdout)
    write_lines(description(kind, stored, events, datetime.now(UTC), width=width, colour=colour))
    return CommandExitCode.OK


def _events_of(handle: "JobHandle") -> "list[JobEvent] | str":
    """Return the events of a job, or why they cannot be read: the rest of a description is still of use."""
    try:
        return handle.events()
    except ClientError as error:
        return f"not available: {error}"


@command
def events(
    connection: ClusterOptions,
    name: JobName,
    *,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Print new events until the job is deleted, or Ctrl-C.")
    ] = False,
) -> int:
    """Show the events of a job and its pods.

    The newest event comes last. A cluster keeps events for an hour by default.

    Exits 0, also if there are none; or 2 if the job does not exist or a request fails, 130 after Ctrl-C.
    """
    handle = attach_job(connection.client(), name)
    if follow:
        _follow_events(handle)
        return CommandExitCode.OK
    events = handle.events()
    if not events:
        message(f'No events found of job "{name}".')
        return CommandExitCode.OK
    lines = event_table(events, datetime.now(UTC), width=width_of(sys.stdout), colour=has_colour(sys.stdout))
    write_lines(lines)
    return CommandExitCode.OK


def event_table(
    events: "Sequence[JobEvent]", now: datetime, *, width: int | None = None, colour: bool = False
) -> list[str]:
    """Return events as the lines of a table; messages are not cut, and wrapped on a terminal."""
    rows = [[ages(event.count, event.first, event.last, now), *_event_cells(event)] for event in events]
    if width is None:
        return table(_COLUMNS, rows, width=None, colour=colour)
    rows = [headings_of(_COLUMNS), *rows]
    return text_rows(_COLUMNS, rows, widths_of(_COLUMNS, rows), width=width, colour=colour)


def _follow_events(handle: "JobHandle") -> None:
    columns = (Column("TIME"), *_COLUMNS[1:])
    minimum_widths = (_TIME, _TYPE.width, _REASON, len(handle.name) + _SUFFIX, 0)

    def write(row: Row) -> None:
        widths = [max(width, len(cell)) for width, cell in zip(minimum_widths, row, strict=True)]
        width, colour = width_of(sys.stdout), has_colour(sys.stdout)
        if width is None:
            lines = format_rows(columns, [row], widths)
        else:
            lines = text_rows(columns, [row], widths, width=width, colour=colour)
        write_lines(lines)

    write(headings_of(columns))
    try:
        for event in handle.follow_events():
            write([rfc3339(event.last), *_event_cells(event)])
    except NotFound:
        message(f"{handle.name} was deleted")


def _event_cells(event: "JobEvent") -> list[str]:
    return [event.type, event.reason, event.object, event.message]
