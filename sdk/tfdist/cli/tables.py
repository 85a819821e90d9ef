"""Tables as kubectl prints them. On a terminal a row is one line: long cells are cut; elsewhere nothing is."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from rich.cells import cell_len, set_cell_size

from tfdist.cli.output import RESET

Row = Sequence[str]

_GAP: Final = 3
_NARROW_GAP: Final = 2
"""Spaces between columns: as in kubectl, and on a terminal if space is short."""
_LEAST_TEXT: Final = 30
"""Least columns for wrapped text in the last column of a table; with fewer it is below its row."""
_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    heading: str
    least: int | None = None
    """Width to which it may be cut; by default it is cut only if the others do not suffice."""
    colours: Mapping[str, str] = field(default_factory=dict)
    """Colours of cells by their text."""
    width: int = 0
    """Least width, for a table that is printed row by row."""


def table(columns: Sequence[Column], rows: Sequence[Row], *, width: int | None, colour: bool = False) -> list[str]:
    """Return the lines of a table with headings.

    Args:
        columns: of the table.
        rows: cells, each without line breaks.
        width: of the terminal; None does not cut anything.
        colour: whether cells are coloured.
    """
    if width is None:
        return format_rows(columns, [headings_of(columns), *rows], widths_of(columns, rows), _GAP, colour=colour)
    if _total(widths_of(columns, rows)) > width:
        columns, rows = _without_empty(columns, rows)
    fitted = _fitted(widths_of(columns, rows), columns, width)
    return format_rows(columns, [headings_of(columns), *rows], fitted, _NARROW_GAP, colour=colour)


def format_rows(
    columns: Sequence[Column], rows: Sequence[Row], widths: Sequence[int], gap: int = _GAP, *, colour: bool = False
) -> list[str]:
    """Return rows as lines; cells that are wider than their column are cut."""
    lines = []
    for row in rows:
        cells = [set_cell_size(cut(cell, width), width) for cell, width in zip(row, widths, strict=True)]
        cells[-1] = cells[-1].rstrip()
        if colour:
            cells = [_colour(cell, column) for cell, column in zip(cells, columns, strict=True)]
        lines.append((" " * gap).join(cells).rstrip())
    return lines


def text_table(headings: Row, rows: Sequence[Row], *, width: int | None, indent: str = "  ") -> list[str]:
    """Return the lines of a table whose last column is text: it is wrapped on a terminal and never cut."""
    columns = [Column(heading) for heading in headings]
    return text_rows(columns, [headings, *rows], widths_of(columns, rows), width=width, indent=indent)


def text_rows(
    columns: Sequence[Column],
    rows: Sequence[Row],
    widths: Sequence[int],
    *,
    width: int | None,
    indent: str = "",
    colour: bool = False,
) -> list[str]:
    """Return rows as lines; the last column is text, which is wrapped, or below its row if space is short."""
    prefix = sum(widths[:-1]) + _NARROW_GAP * (len(widths) - 1) + len(indent)
    room = None if width is None else width - prefix
    lines = []
    for row in rows:
        (plain,) = format_rows(columns[:-1], [row[:-1]], widths[:-1], _NARROW_GAP)
        (start,) = format_rows(columns[:-1], [row[:-1]], widths[:-1], _NARROW_GAP, colour=colour)
        if room is not None and room < _LEAST_TEXT:
            lines += [f"{indent}{start}", *wrapped(row[-1], width, f"{indent}  ")]
        else:
            first, *others = wrapped(row[-1], room) or [""]
            gap = " " * (prefix - len(indent) - cell_len(plain))
            lines += [f"{indent}{start}{gap}{first}".rstrip(), *(f"{' ' * prefix}{line}" for line in others)]
    return lines


def wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    """Return text as lines of a width; None is without limit."""
    if width is None:
        return [f"{indent}{text}"]
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def cut(text: str, width: int) -> str:
    """Return text of at most `width` terminal columns, with an ellipsis if it is cut."""
    return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"


def age(duration: timedelta) -> str:
    """Return a duration as kubectl shows an age: `45s`, `5m20s`, `3h5m`, `2d3h`, `40d`, `1y30d`."""
    seconds = max(0, int(duration.total_seconds()))
    days, hours, minutes = seconds // 86400, seconds // 3600, seconds // 60
    if duration < 2 * _MINUTE:
        return f"{seconds}s"
    if duration < 3 * _HOUR:
        return _two(minutes, "m", seconds % 60 if minutes < 10 else 0, "s")  # noqa: PLR2004  as kubectl
    if duration < 2 * _DAY:
        return _two(hours, "h", minutes % 60 if hours < 8 else 0, "m")  # noqa: PLR2004
    if duration < 730 * _DAY:
        return _two(days, "d", hours % 24 if days < 8 else 0, "h")  # noqa: PLR2004
    return _two(days // 365, "y", days % 365 if days < 8 * 365 else 0, "d")


def ages(count: int, first: datetime, last: datetime, now: datetime) -> str:
    """Return when something was last observed, as kubectl shows it: `5m`, `5m (x3 over 10m)`."""
    recent = age(now - last)
    return f"{recent} (x{count} over {age(now - first)})" if count > 1 else recent


def _two(number: int, unit: str, remainder: int, unit_of_rest: str) -> str:
    return f"{number}{unit}{remainder}{unit_of_rest}" if remainder else f"{number}{unit}"


def headings_of(columns: Sequence[Column]) -> list[str]:
    """Return the first row of a table."""
    return [column.heading for column in columns]


def widths_of(columns: Sequence[Column], rows: Sequence[Row]) -> list[int]:
    """Return the width of each column, in which its heading and all cells fit."""
    return [
        max(column.width, cell_len(column.heading), *(cell_len(row[number]) for row in rows), 0)
        for number, column in enumerate(columns)
    ]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _NARROW_GAP * (len(widths) - 1)


def _without_empty(columns: Sequence[Column], rows: Sequence[Row]) -> tuple[Sequence[Column], Sequence[Row]]:
    columns_with_text = [number for number in range(len(columns)) if any(row[number] for row in rows)]
    return [columns[number] for number in columns_with_text], [
        [row[number] for number in columns_with_text] for row in rows
    ]


def _fitted(widths: list[int], columns: Sequence[Column], width: int) -> list[int]:
    """Return the widths of columns that fit a terminal: first those that may be cut are reduced, the widest first."""
    for minimum_widths in ([column.least or 2**30 for column in columns], [1] * len(columns)):
        while _total(widths) > width:
            reducible = [number for number, current in enumerate(widths) if current > minimum_widths[number]]
            if not reducible:
                break
            widths[max(reducible, key=widths.__getitem__)] -= 1
    return widths


def _colour(cell: str, column: Column) -> str:
    code = column.colours.get(cell.strip())
    return f"{code}{cell}{RESET}" if code else cell
