"""Columns of CSV files with a header, plain or gzip. Needs only NumPy.

RFC 4180: commas, double quotes, UTF-8. A missing value, or a value that is not a number in a numeric column, is an
error with its line: how to replace it is for the author of the data to decide.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from tfdist_trainer.data.columns import Array, BadRecords, Column, check_rows
from tfdist_trainer.errors import DataMalformedError

_UNREADABLE: Final = (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error)


def read(name: str, columns: Sequence[Column], bad: BadRecords) -> dict[str, Array]:
    """Return the given columns of the file `name`; other columns are ignored.

    Raises:
        DataMalformedError: the file is not CSV, its header lacks a column, or a line is bad and `bad` does not
            skip.
    """
    lines: list[int] = []
    texts: list[list[str]] = []
    try:
        with _open(name) as file:
            reader = csv.reader(file, strict=True)
            for row in _rows(name, reader, columns, bad):
                lines.append(reader.line_num)
                texts.append(row)
    except _UNREADABLE as error:
        raise DataMalformedError(f"{name}: line {(lines or [0])[-1] + 1}: not readable as CSV: {error}") from None
    return _converted(name, columns, lines, texts, bad)


def _open(name: str) -> IO[str]:
    if name.endswith(".gz"):
        return gzip.open(name, "rt", encoding="utf-8-sig", newline="")
    return Path(name).open(encoding="utf-8-sig", newline="")


def _rows(name: str, reader: Any, columns: Sequence[Column], bad: BadRecords) -> Iterator[list[str]]:
    """Yield the fields of `columns` of each complete line: as many fields as the header, none of them empty."""
    header = [field.strip() for field in next(reader, [])]
    missing = [column.name for column in columns if column.name not in header]
    if missing:
        raise DataMalformedError(f"{name}: line 1: has no column {missing[0]!r}; it has {header[:50]}")
    places = [header.index(column.name) for column in columns]
    for row in reader:
        if not row:
            continue
        if len(row) != len(header):
            bad.found(f"{name}: line {reader.line_num}", f"has {len(row)} fields, the header {len(header)}")
            continue
        values = [row[place].strip() for place in places]
        if "" in values:
            bad.found(f"{name}: line {reader.line_num}", f"{columns[values.index('')].name!r} is missing")
            continue
        yield values


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
            bad.found(f"{name}: line {lines[row]}", f"{column.name!r} is {column_texts[row]!r}, expected {expected}")
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
        return np.asarray(texts, str), none
    kind = np.int64 if column.kind == "int64" else np.float64
    try:
        return np.asarray(texts, str).astype(kind), none
    except (ValueError, OverflowError):
        found = [_number(text, kind) for text in texts]
        return np.asarray([value or 0 for value in found], kind), np.asarray([value is None for value in found])


def _number(text: str, kind: type[np.int64] | type[np.float64]) -> np.int64 | np.float64 | None:
    try:
        return kind(text)
    except (ValueError, OverflowError):
        return None
