"""The records of a CSV file with the number of their first line. A malformed record costs no other record.

A double quote that is not closed makes the parser read on to the next double quote, or to the end of the file. So after
an error the parser starts again at the second line of the malformed record.
"""

import csv
import gzip
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple

from tfdist_trainer.data.content import GIT_LFS, GZIP_MAGIC, head, kind_for_csv
from tfdist_trainer.errors import DataMalformedError

_ENCODING: Final = "utf-8-sig"
_ON_WRONG_BYTE: Final = "surrogateescape"
_UNDECODED: Final = re.compile("[\udc80-\udcff]")
"""A byte that is not UTF-8, as the error handler `surrogateescape` decodes it."""
_LINE_END: Final = re.compile("\r\n|\r|\n")


class Record(NamedTuple):
    """A record that begins on `line`: its fields, or the reason why it is malformed."""

    line: int
    fields: list[str]
    problem: str | None = None


def open_text(name: str) -> IO[str]:
    """Open the CSV file `name`, plain or GZIP; bytes that are not UTF-8 are decoded for `undecoded` to find.

    Raises:
        DataMalformedError: it is a file of another format.
        OSError: the file cannot be read.
    """
    start = head(name)
    if start.startswith(GZIP_MAGIC):
        with gzip.open(name) as content:
            _check_kind(name, content.read(len(start)), "its decompressed content")
        return gzip.open(name, "rt", encoding=_ENCODING, errors=_ON_WRONG_BYTE, newline="")
    _check_kind(name, start, "it")
    return Path(name).open(encoding=_ENCODING, errors=_ON_WRONG_BYTE, newline="")


def _check_kind(name: str, start: bytes, what: str) -> None:
    """Raise `DataMalformedError` if `start` is the start of a file of another format."""
    kind = kind_for_csv(start)
    if kind == GIT_LFS:
        raise DataMalformedError(f"{name}: not readable as CSV: it is a {kind}; fetch the file with git lfs pull")
    if kind:
        remedy = "convert it to UTF-8" if "UTF-16" in kind else "set data.format, or convert it to CSV"
        raise DataMalformedError(f"{name}: not readable as CSV: {what} begins like a {kind} file; {remedy}")


@contextmanager
def unlimited_fields() -> Iterator[None]:
    """Lift the limit of Python's `csv` on the length of a field, 131,072 characters: documents are longer."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def records(file: Iterable[str]) -> Iterator[Record]:
    """Yield the records of the lines `file`, the header included, empty lines excluded."""
    source, again, record = iter(file), deque[str](), list[str]()
    first = 1
    while True:
        try:
            for fields in csv.reader(_kept(source, again, record), strict=True):
                if fields:
                    yield Record(first, fields)
                first += len(record)
                record.clear()
        except csv.Error as error:
            yield Record(first, [], _problem(error))
        else:
            return
        again.extendleft(reversed(record[1:]))
        record.clear()
        first += 1


def _kept(source: Iterator[str], again: deque[str], record: list[str]) -> Iterator[str]:
    """Yield the lines of `again`, then those of `source`, and append each to `record`."""
    while again:
        record.append(again.popleft())
        yield record[-1]
    for line in source:
        record.append(line)
        yield line


def is_undecoded(text: str) -> bool:
    """Return whether `text` has a byte that is not UTF-8."""
    return not text.isascii() and _UNDECODED.search(text) is not None


def undecoded(record: Record, place: int) -> tuple[int, str] | None:
    """Return the line and the reason if field `place` of `record` has a byte that is not UTF-8."""
    text = record.fields[place]
    found = _UNDECODED.search(text)
    if found is None:
        return None
    before = "".join((*record.fields[:place], text[: found.start()]))
    byte = ord(found[0]) - 0xDC00
    remedy = "convert the file, for example by iconv -f WINDOWS-1252 -t UTF-8"
    return record.line + len(_LINE_END.findall(before)), f"has the byte 0x{byte:02x}, which is not UTF-8; {remedy}"


def _problem(error: csv.Error) -> str:
    unclosed = "; a double quote is not closed, or the file is cut off" if "end of data" in str(error) else ""
    return f"not readable as CSV: {error}{unclosed}"
