"""The records of a CSV or TSV file with the number of their first line. A malformed record does not affect others.

A double quote that is not closed makes the parser read on to the next double quote, or to the end of the file. So after
an error the parser starts again at the second line of the malformed record.
"""

import csv
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tfdist_trainer.data.text_files import first_undecoded, line_ends, not_utf8


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
        pending.extendleft(reversed(record[1:]))
        record.clear()
        number += 1


def tab_separated(file: Iterable[str]) -> Iterator[CsvRecord]:
    """Yield the lines `file` as records of fields that are separated by tabs, empty lines excluded."""
    for number, line in enumerate(file, 1):
        if text := line.rstrip("\r\n"):
            yield CsvRecord(number, text.split("\t"))


def _recorded_lines(source: Iterator[str], pending: deque[str], record: list[str]) -> Iterator[str]:
    """Yield the lines of `pending`, then those of `source`, and append each to `record`."""
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
