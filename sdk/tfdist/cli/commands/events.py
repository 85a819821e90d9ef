"""`tfdist events JOB`: the events of a job and its pods, newest last."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions
from tfdist.cli.exit_code import CommandExitCode
from tfdist.cli.find import attach
from tfdist.cli.options import JobName
from tfdist.cli.output import YELLOW, has_colour, message, width_of, write_lines
from tfdist.cli.tables import Column, Row, ages, format_rows, headings_of, table, text_rows, widths_of
from tfdist.client.errors import NotFound
from tfdist.client.events import JobEvent
from tfdist.client.job_handle import JobHandle
from tfdist.timestamps import rfc3339

_TYPE: Final = Column("TYPE", colours={"Warning": YELLOW}, width=7)
_COLUMNS: Final = (Column("LAST SEEN"), _TYPE, Column("REASON"), Column("OBJECT"), Column("MESSAGE"))
_TIME: Final = 20
_REASON: Final = 20
_SUFFIX: Final = len("pod/-worker-000-r00")
"""Widths of a table that is printed event by event, for usual reasons and pods."""


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
    handle = attach(connection.client(), name)
    if follow:
        _follow(handle)
        return CommandExitCode.OK
    events = handle.events()
    if not events:
        message(f'No events found of job "{name}".')
        return CommandExitCode.OK
    lines = event_table(events, datetime.now(UTC), width=width_of(sys.stdout), colour=has_colour(sys.stdout))
    write_lines(lines)
    return CommandExitCode.OK


def event_table(
    events: Sequence[JobEvent], now: datetime, *, width: int | None = None, colour: bool = False
) -> list[str]:
    """Return events as the lines of a table; messages are not cut, and wrapped on a terminal."""
    rows = [[ages(event.count, event.first, event.last, now), *_cells(event)] for event in events]
    if width is None:
        return table(_COLUMNS, rows, width=None, colour=colour)
    rows = [headings_of(_COLUMNS), *rows]
    return text_rows(_COLUMNS, rows, widths_of(_COLUMNS, rows), width=width, colour=colour)


def _follow(handle: JobHandle) -> None:
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
            write([rfc3339(event.last), *_cells(event)])
    except NotFound:
        message(f"{handle.name} was deleted")


def _cells(event: JobEvent) -> list[str]:
    return [event.type, event.reason, event.object, event.message]
