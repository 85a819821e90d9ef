"""Columns of JSON lines: an object on each line, in UTF-8, plain or gzip (https://jsonlines.org). Needs only NumPy.

Numbers, lists of numbers and strings become the values of columns. A field that is absent or null makes a bad record;
an empty string is a value.
"""

import json
import re
from collections.abc import Generator, Sequence
from typing import IO, Any, Final

from tfdist_trainer.data import text_rows
from tfdist_trainer.data.columns import Array, BadRecords, DataColumn, shown
from tfdist_trainer.data.python_values import convert
from tfdist_trainer.data.text_files import first_undecoded, not_utf8
from tfdist_trainer.data.text_rows import Row, Syntax
from tfdist_trainer.errors import ColumnAbsentError

_LINE: Final = "; in JSON lines each line is one object"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MAX_NAMES: Final = 50


def read(name: str, columns: Sequence[DataColumn], bad: BadRecords) -> dict[str, Array]:
    """Return the given columns of the file `name`; other fields of its objects are ignored.

    Raises:
        DataMalformedError: the file is not text, or a record is bad and `bad` does not skip.
        ColumnAbsentError: no object has a column.
    """
    return text_rows.read(name, columns, bad, _SYNTAX)


def _rows(name: str, file: IO[str], columns: Sequence[DataColumn]) -> Generator[Row, None, None]:
    absent, names = {column.name for column in columns}, set[str]()
    for number, line in enumerate(file, 1):
        if line.isspace():
            continue
        parsed = _parse(line)
        if isinstance(parsed, str):
            yield Row(number, [], parsed)
            continue
        if absent:
            absent.difference_update(parsed)
            names.update(parsed)
        yield _row(number, line, parsed, columns)
    if absent and names:
        fields = sorted(names)[:_MAX_NAMES]
        raise ColumnAbsentError(f"{name}: no record has a field {min(absent)!r}; they have {fields}")


def _parse(line: str) -> dict[str, Any] | str:
    """Return the object of `line`, or the reason why there is none."""
    try:
        value = json.loads(line.rstrip("\r\n"))
    except json.JSONDecodeError as error:
        return f"not readable as JSON: {error.msg.removesuffix(' at')} at character {error.pos + 1}{_LINE}"
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists in lists in lists
        return f"not readable as JSON: {error}"
    return value if isinstance(value, dict) else f"is {shown(value)}, expected an object{_LINE}"


def _row(number: int, line: str, record: dict[str, Any], columns: Sequence[DataColumn]) -> Row:
    values = [record.get(column.name) for column in columns]
    if None in values:
        name = columns[values.index(None)].name
        absent = f"it has {sorted(record)[:_MAX_NAMES]}" if name not in record else "it is null"
        return Row(number, [], f"{name!r} is missing; {absent}")
    if not line.isascii() or "\\u" in line:
        for column, value in zip(columns, values, strict=True):
            if isinstance(value, str) and (problem := _text_problem(line, value)):
                return Row(number, [], f"{column.name!r} {problem}")
    return Row(number, values)


def _text_problem(line: str, value: str) -> str | None:
    """Return why the string `value` of `line` is not UTF-8, or None."""
    surrogate = _SURROGATE.search(value)
    if surrogate is None:
        return None
    if first_undecoded(line) and (byte := first_undecoded(value)):
        return not_utf8(byte)
    return f"has \\u{ord(surrogate[0]):04x}, half of a pair of surrogates, which is not a character"


_SYNTAX: Final = Syntax("JSON lines", "\n", _rows, convert)
