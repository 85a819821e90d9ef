"""Columns of CSV and TSV files with a header, plain or gzip. Needs only NumPy.

CSV as in RFC 4180: commas, double quotes, UTF-8. TSV as in the registration of text/tab-separated-values at IANA: a
record is a line, its fields have no tabs, and a double quote is a character like any other. A missing value, or a value
that is not a number in a numeric column, is an error with its line: the author of the data decides how to replace it.

A malformed record does not affect others: a double quote that is not closed makes the parser read on to the next double
quote, or to the end of the file, so after an error it starts again at the second line of the malformed record.
"""

import csv
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO, Any, Final, NamedTuple

import numpy as np

from tfdist.messages import count
from tfdist_trainer.data import text_rows
from tfdist_trainer.data.columns import Array, BadRecords, Converted, DataColumn, shown
from tfdist_trainer.data.text_files import first_undecoded, line_ends, not_utf8
from tfdist_trainer.data.text_rows import Row, Syntax
from tfdist_trainer.errors import ColumnAbsentError, ColumnAmbiguousError, ConfigurationError, DataMalformedError


class CsvRecord(NamedTuple):
    """A record that begins on `line`: its fields, or the reason why it is malformed."""

    line: int
    fields: list[str]
    problem: str | None = None


@contextmanager
def unlimited_fields() -> Iterator[None]:
    """Lift the limit of Python's `csv` on the length of a field, 131,072 characters: documents are longer."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def records(file: Iterable[str]) -> Iterator[CsvRecord]:
    """Yield the records of the lines `file`, the header included, empty lines excluded."""
    source, pending, record = iter(file), deque[str](), list[str]()
    number = 1
    while True:
        try:
            for fields in csv.reader(_recorded_lines(source, pending, record), strict=True):
                if fields:
                    yield CsvRecord(number, fields)
                number += len(record)
                record.clear()
        except csv.Error as error:
            yield CsvRecord(number, [], _problem(error))
        else:
            return
        # The parser has read beyond the malformed record: the lines after its first one are parsed again.
        pending.extendleft(reversed(record[1:]))
        record.clear()
        number += 1


def tab_separated(file: Iterable[str]) -> Iterator[CsvRecord]:
    """Yield the lines `file` as records of fields that are separated by tabs, empty lines excluded."""
    for number, line in enumerate(file, 1):
        if text := line.rstrip("\r\n"):
            yield CsvRecord(number, text.split("\t"))


def _recorded_lines(source: Iterator[str], pending: deque[str], record: list[str]) -> Iterator[str]:
    """Yield the lines of `pending`, then of `source`, and append each to `record`."""
    while pending:
        record.append(pending.popleft())
        yield record[-1]
    for line in source:
        record.append(line)
        yield line


def find_undecoded(record: CsvRecord, index: int) -> tuple[int, str] | None:
    """Return the line and the reason if field `index` of `record` has a byte that is not UTF-8."""
    text = record.fields[index]
    match = first_undecoded(text)
    if match is None:
        return None
    before = "".join((*record.fields[:index], text[: match.start()]))
    return record.line + line_ends(before), not_utf8(match)


def _problem(error: csv.Error) -> str:
    unclosed = "; a double quote is not closed, or the file is cut off" if "end of data" in str(error) else ""
    return f"not readable as CSV: {error}{unclosed}"


_REMEDIES: Final = {
    ",": "set data.format: csv",
    "\t": "set data.format: tsv",
    ";": "separate them by commas",
    "|": "separate them by commas",
}
"""Remedy for fields with the separator of another format."""
_LONGEST_NUMBER: Final = 64
"""Characters of a field up to which all fields of a column are converted at once, as an array of that width."""


def read(name: str, columns: Sequence[DataColumn], bad: BadRecords) -> dict[str, Array]:
    """Return the given columns of the file `name`; other columns are ignored.

    Raises:
        DataMalformedError: the file is not CSV, or a record is bad and `bad` does not skip.
        ColumnAbsentError: its header lacks a column; `ColumnAmbiguousError` if it has one several times.
        ConfigurationError: a column is a list of numbers.
    """
    return text_rows.read(name, columns, bad, _CSV)


def read_tsv(name: str, columns: Sequence[DataColumn], bad: BadRecords) -> dict[str, Array]:
    """Return the given columns of the TSV file `name`; see `read`."""
    return text_rows.read(name, columns, bad, _TSV)


def _rows(
    kind: str,
    parse: Callable[[Iterable[str]], Iterator[CsvRecord]],
    name: str,
    file: IO[str],
    columns: Sequence[DataColumn],
) -> Generator[Row, None, None]:
    """Return the rows of a file of the format `kind`, whose lines `parse` divides into records."""
    for column in columns:
        if column.shape:
            raise ConfigurationError(
                f"{name}: {column.name!r} is an array of {list(column.shape)}, and a field of {kind} is one value: "
                "configure a column for each number, or convert the file to JSON lines"
            )
    # Around the whole iteration: the limit is one of the module `csv`.
    with unlimited_fields():
        parsed = parse(file)
        indices = _field_indices(name, next(parsed, CsvRecord(1, [])), columns)
        for record in parsed:
            yield _row(record, columns, indices)


class _FieldIndices(NamedTuple):
    """The number of fields of the header, and the index of the field of each column."""

    header: int
    columns: list[int]


def _field_indices(name: str, record: CsvRecord, columns: Sequence[DataColumn]) -> _FieldIndices:
    """Return the indices of `columns` in the header `record`, after checking it."""
    if record.problem:
        raise DataMalformedError(f"{name}: line {record.line}: {record.problem}")
    header = [field.strip() for field in record.fields]
    missing = [column.name for column in columns if column.name not in header]
    if missing:
        detail = f"it has {header[:50]}{_header_hint(header, missing)}" if header else "the file is empty"
        raise ColumnAbsentError(f"{name}: line {record.line}: has no column {missing[0]!r}; {detail}")
    if duplicates := [column.name for column in columns if header.count(column.name) > 1]:
        remedy = "which of them is meant is not known; rename or remove the others"
        raise ColumnAmbiguousError(f"{name}: line {record.line}: has several columns {duplicates[0]!r}, and {remedy}")
    return _FieldIndices(len(header), [header.index(column.name) for column in columns])


def _header_hint(header: Sequence[str], missing: Sequence[str]) -> str:
    """Return why a header may lack columns: another encoding, or another separator; "" if that is not known."""
    if any("\0" in field for field in header):
        return "; it seems to be UTF-16 text: convert it to UTF-8"
    for separator, remedy in _REMEDIES.items():
        if len(header) == 1 and set(missing) <= {field.strip(' "') for field in header[0].split(separator)}:
            return f"; its fields are separated by {separator!r}: {remedy}"
    return ""


def _row(record: CsvRecord, columns: Sequence[DataColumn], indices: _FieldIndices) -> Row:
    """Return the fields of `columns`; a good record has as many fields as the header, none of them empty."""
    if record.problem is not None:
        return Row(record.line, [], record.problem)
    if len(record.fields) != indices.header:
        return Row(record.line, [], f"has {count(len(record.fields), 'field')}, the header {indices.header}")
    values = [record.fields[index].strip() for index in indices.columns]
    if "" in values:
        return Row(record.line, [], f"{columns[values.index('')].name!r} is missing")
    # One search for all fields, as nearly all records are UTF-8.
    if first_undecoded("".join(values)):
        for column, index in zip(columns, indices.columns, strict=True):
            if problem := find_undecoded(record, index):
                return Row(problem[0], [], f"{column.name!r} {problem[1]}")
    return Row(record.line, values)


def convert(texts: list[Any], column: DataColumn) -> Converted:
    """Return the values of a column from the strings `texts`, one for each row."""
    if column.kind == "string":
        # As objects: in an array of type str each text takes the space of the longest one.
        return Converted(np.asarray(texts, object), {})
    kind = np.int64 if column.kind == "int64" else np.float64
    try:
        # An array of strings takes the space of its longest one in each row.
        if max(map(len, texts), default=0) <= _LONGEST_NUMBER:
            return Converted(np.asarray(texts, str).astype(kind), {})
    except (ValueError, OverflowError):
        pass
    # One by one only to find the bad ones.
    numbers = [_number(text, kind) for text in texts]
    expected = "a whole number" if column.kind == "int64" else "a number"
    problems = {
        row: f"is {shown(texts[row])}, expected {expected}" for row, value in enumerate(numbers) if value is None
    }
    return Converted(np.asarray([value or 0 for value in numbers], kind), problems)


def _number(text: str, kind: type[np.int64] | type[np.float64]) -> np.int64 | np.float64 | None:
    try:
        return kind(text)
    except (ValueError, OverflowError):
        return None


_CSV: Final = Syntax("CSV", "", partial(_rows, "CSV", records), convert)
_TSV: Final = Syntax("TSV", "", partial(_rows, "TSV", tab_separated), convert)
