"""Reads the columns of a text file whose records are lines, in any syntax. Needs only NumPy.

The syntax parses the values of each record, and converts a whole column. A record that is bad, for either of them or
for its column, is reported with its line and does not affect others.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

from tfdist_trainer.atomic import reject_storage_error
from tfdist_trainer.data.columns import Array, BadRecords, Converted, DataColumn, check_converted
from tfdist_trainer.data.text_files import UNREADABLE, open_text


class Row(NamedTuple):
    """The values of the columns of a record, or the reason why it is bad, and the line of either."""

    line: int
    values: list[Any]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Syntax:
    """How a text file holds records."""

    kind: str
    """Its name in messages."""
    newline: str
    """Line separator; see `open_text`."""
    rows: Callable[[str, IO[str], Sequence[DataColumn]], Generator[Row, None, None]]
    """Yields the rows of the file of a name. It raises `DataMalformedError` if the file as a whole is malformed, and
    `ColumnAbsentError` if no record has a column."""
    convert: Callable[[list[Any], DataColumn], Converted]
    """Converts the values of a column, one for each row."""


def read(name: str, columns: Sequence[DataColumn], bad: BadRecords, syntax: Syntax) -> dict[str, Array]:
    """Return the given columns of the file `name`; other fields are ignored.

    Raises:
        DataMalformedError: the file is not of this syntax, or a record is bad and `bad` does not skip.
        ColumnAbsentError: no record has a column.
    """
    lines: list[int] = []
    rows: list[list[Any]] = []
    line = 0
    try:
        with open_text(name, syntax.kind, syntax.newline) as file, closing(syntax.rows(name, file, columns)) as parsed:
            for row in parsed:
                line = row.line
                if row.problem is None:
                    lines.append(line)
                    rows.append(row.values)
                else:
                    bad.report(f"{name}: line {line}", row.problem)
    except UNREADABLE as error:
        reject_storage_error(error, name)
        # The records before the damage are read: it does not affect them.
        bad.report(f"{name}: after line {line}", f"the rest of the file is not readable: {error}")
    return _convert_rows(name, columns, lines, rows, bad, syntax)


def _convert_rows(
    name: str,
    columns: Sequence[DataColumn],
    lines: list[int],
    rows: list[list[Any]],
    bad: BadRecords,
    syntax: Syntax,
) -> dict[str, Array]:
    """Return the columns of `rows`, the values of `lines`."""
    converted = {
        column.name: syntax.convert([row[number] for row in rows], column) for number, column in enumerate(columns)
    }
    return check_converted(columns, converted, lambda row: f"{name}: line {lines[row]}", bad)
