"""Columns of CSV files with a header, plain or gzip. Needs only NumPy.

RFC 4180: commas, double quotes, UTF-8. A missing value, or a value that is not a number in a numeric column, is an
error with its line: how to replace it is for the author of the data to decide.
"""

import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tfdist.messages import count
from tfdist_trainer.data.columns import Array, BadRecords, Column, check_rows, shown
from tfdist_trainer.data.csv_records import Record, is_undecoded, open_text, records, undecoded, unlimited_fields
from tfdist_trainer.errors import ColumnAbsentError, DataMalformedError

_UNREADABLE: Final = (OSError, EOFError, zlib.error)
_OTHER_SEPARATORS: Final = ("\t", ";", "|")
_LONGEST_NUMBER: Final = 64
"""Characters of a field up to which all fields of a column are converted at once, as an array of that width."""


def read(name: str, columns: Sequence[Column], bad: BadRecords) -> dict[str, Array]:
    """Return the given columns of the file `name`; other columns are ignored.

    Raises:
        DataMalformedError: the file is not CSV, or a record is bad and `bad` does not skip.
        ColumnAbsentError: its header lacks a column.
    """
    lines: list[int] = []
    texts: list[list[str]] = []
    line = 0
    try:
        with open_text(name) as file, unlimited_fields():
            found = records(file)
            places = _places(name, next(found, Record(1, [])), columns)
            for record in found:
                line = record.line
                row = _row(name, record, columns, places, bad)
                if row is not None:
                    lines.append(line)
                    texts.append(row)
    except _UNREADABLE as error:
        # The records before the damage are read: it costs no other record.
        bad.found(f"{name}: after line {line}", f"the rest of the file is not readable: {error}")
    return _converted(name, columns, lines, texts, bad)


class _Places(NamedTuple):
    """The number of fields of the header, and the index of the field of each column."""

    header: int
    columns: list[int]


def _places(name: str, record: Record, columns: Sequence[Column]) -> _Places:
    """Return the places of `columns` in the header `record`, after checking it."""
    if record.problem:
        raise DataMalformedError(f"{name}: line {record.line}: {record.problem}")
    header = [field.strip() for field in record.fields]
    missing = [column.name for column in columns if column.name not in header]
    if missing:
        found = f"it has {header[:50]}{_header_hint(header, missing)}" if header else "the file is empty"
        raise ColumnAbsentError(f"{name}: line {record.line}: has no column {missing[0]!r}; {found}")
    return _Places(len(header), [header.index(column.name) for column in columns])


def _header_hint(header: Sequence[str], missing: Sequence[str]) -> str:
    """Return why a header may lack columns: another encoding, or another separator; "" if that is not known."""
    if any("\0" in field for field in header):
        return "; it seems to be UTF-16 text: convert it to UTF-8"
    for separator in _OTHER_SEPARATORS:
        if len(header) == 1 and set(missing) <= {field.strip(' "') for field in header[0].split(separator)}:
            return f"; its fields are separated by {separator!r}: separate them by commas"
    return ""


def _row(name: str, record: Record, columns: Sequence[Column], places: _Places, bad: BadRecords) -> list[str] | None:
    """Return the fields of `columns` of a good record: as many fields as the header, none of them empty."""
    line, problem, values = record.line, record.problem, list[str]()
    if problem is None and len(record.fields) != places.header:
        problem = f"has {count(len(record.fields), 'field')}, the header {places.header}"
    if problem is None:
        values = [record.fields[place].strip() for place in places.columns]
        if "" in values:
            problem = f"{columns[values.index('')].name!r} is missing"
        elif is_undecoded("".join(values)):
            for column, place in zip(columns, places.columns, strict=True):
                if problem is None and (wrong := undecoded(record, place)):
                    line, problem = wrong[0], f"{column.name!r} {wrong[1]}"
    if problem is None:
        return values
    bad.found(f"{name}: line {line}", problem)
    return None


def _converted(
    name: str, columns: Sequence[Column], lines: list[int], texts: list[list[str]], bad: BadRecords
) -> dict[str, Array]:
    """Return the columns of `texts`, the fields of `lines`."""
    right = np.ones(len(texts), np.bool_)
    values: dict[str, Array] = {}
    for number, column in enumerate(columns):
        column_texts = [row[number] for row in texts]
        array, wrong = _numbers(column_texts, column)
        for row in np.flatnonzero(wrong & right):
            expected = "a whole number" if column.kind == "int64" else "a number"
            bad.found(
                f"{name}: line {lines[row]}", f"{column.name!r} is {shown(column_texts[row])}, expected {expected}"
            )
        right &= ~wrong
        values[column.name] = array
    kept = np.asarray(lines, np.int64)[right]
    return check_rows(
        columns, {key: array[right] for key, array in values.items()}, lambda row: f"{name}: line {kept[row]}", bad
    )


def _numbers(texts: list[str], column: Column) -> tuple[Array, Array]:
    """Return the values of `texts`, and a mask of those that are not of the column's type."""
    none = np.zeros(len(texts), np.bool_)
    if column.kind == "string":
        # As objects: in an array of type str each text takes the space of the longest one.
        return np.asarray(texts, object), none
    kind = np.int64 if column.kind == "int64" else np.float64
    try:
        if max(map(len, texts), default=0) <= _LONGEST_NUMBER:
            return np.asarray(texts, str).astype(kind), none
    except (ValueError, OverflowError):
        pass
    found = [_number(text, kind) for text in texts]
    return np.asarray([value or 0 for value in found], kind), np.asarray([value is None for value in found], bool)


def _number(text: str, kind: type[np.int64] | type[np.float64]) -> np.int64 | np.float64 | None:
    try:
        return kind(text)
    except (ValueError, OverflowError):
        return None
