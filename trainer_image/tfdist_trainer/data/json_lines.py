"""Columns of JSON lines: an object on each line, in UTF-8, plain or gzip (https://jsonlines.org). Needs only NumPy.

Numbers, lists of numbers and strings become the values of columns. A field that is absent or null makes a bad record;
an empty string is a value.
"""

import json
import re
from collections.abc import Generator, Sequence
from typing import IO, Any, Final

import numpy as np

from tfdist_trainer.data import text_rows
from tfdist_trainer.data.columns import Array, BadRecords, Column, shown
from tfdist_trainer.data.text_files import first_undecoded, not_utf8
from tfdist_trainer.data.text_rows import Converted, Row, Syntax
from tfdist_trainer.errors import ColumnAbsentError

_LINE: Final = "; in JSON lines each line is one object"
_NUMBERS: Final = frozenset({int, float, bool})
_KINDS: Final = {"uint8": "iu", "int64": "iub", "float32": "fiub"}
"""NumPy kinds (`dtype.kind`) of the lists that a column may have."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MAX_NAMES: Final = 50


def read(name: str, columns: Sequence[Column], bad: BadRecords) -> dict[str, Array]:
    """Return the given columns of the file `name`; other fields of its objects are ignored.

    Raises:
        DataMalformedError: the file is not text, or a record is bad and `bad` does not skip.
        ColumnAbsentError: no object has a column.
    """
    return text_rows.read(name, columns, bad, _SYNTAX)


def _rows(name: str, file: IO[str], columns: Sequence[Column]) -> Generator[Row, None, None]:
    absent, names = {column.name for column in columns}, set[str]()
    for number, line in enumerate(file, 1):
        if line.isspace():
            continue
        found = _parsed(line)
        if isinstance(found, str):
            yield Row(number, [], found)
            continue
        if absent:
            absent.difference_update(found)
            names.update(found)
        yield _row(number, line, found, columns)
    if absent and names:
        known = sorted(names)[:_MAX_NAMES]
        raise ColumnAbsentError(f"{name}: no record has a field {min(absent)!r}; they have {known}")


def _parsed(line: str) -> dict[str, Any] | str:
    """Return the object of `line`, or the reason why there is none."""
    try:
        found = json.loads(line.rstrip("\r\n"))
    except json.JSONDecodeError as error:
        return f"not readable as JSON: {error.msg.removesuffix(' at')} at character {error.pos + 1}{_LINE}"
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists in lists in lists
        return f"not readable as JSON: {error}"
    return found if isinstance(found, dict) else f"is {shown(found)}, expected an object{_LINE}"


def _row(number: int, line: str, found: dict[str, Any], columns: Sequence[Column]) -> Row:
    values = [found.get(column.name) for column in columns]
    if None in values:
        name = columns[values.index(None)].name
        absent = f"it has {sorted(found)[:_MAX_NAMES]}" if name not in found else "it is null"
        return Row(number, [], f"{name!r} is missing; {absent}")
    if not line.isascii() or "\\u" in line:
        for column, value in zip(columns, values, strict=True):
            if isinstance(value, str) and (problem := _no_text(line, value)):
                return Row(number, [], f"{column.name!r} {problem}")
    return Row(number, values)


def _no_text(line: str, value: str) -> str | None:
    """Return why the string `value` of `line` is no UTF-8, or None."""
    found = _SURROGATE.search(value)
    if found is None:
        return None
    if first_undecoded(line) and (byte := first_undecoded(value)):
        return not_utf8(byte)
    return f"has \\u{ord(found[0]):04x}, half of a pair of surrogates, which is no character"


def _convert(values: list[Any], column: Column) -> Converted:
    if column.shape:
        return _arrays(values, column)
    return _strings(values) if column.kind == "string" else _numbers(values, column)


def _strings(values: list[Any]) -> Converted:
    """Return `values` as strings; whole numbers are names of categories too."""
    array = np.empty(len(values), object)
    array[:] = [value if type(value) is str else str(value) for value in values]
    if set(map(type, values)) <= {str, int}:
        return Converted(array, {})
    wrong = (row for row, value in enumerate(values) if type(value) not in {str, int})
    return Converted(array, {row: f"is {shown(values[row])}, expected a string" for row in wrong})


def _numbers(values: list[Any], column: Column) -> Converted:
    whole = column.kind == "int64"
    kind = np.int64 if whole else np.float64
    kinds = set(map(type, values))
    if kinds <= _NUMBERS and not (whole and float in kinds):
        try:
            return Converted(np.asarray(values, kind), {})
        except OverflowError:
            pass
    found = [_number(value, whole=whole) for value in values]
    expected = "a whole number" if whole else "a number"
    problems = {
        row: f"is {shown(values[row])}, expected {expected}" for row, value in enumerate(found) if value is None
    }
    return Converted(np.asarray([value or 0 for value in found], kind), problems)


def _number(value: Any, *, whole: bool) -> np.int64 | np.float64 | None:
    """Return the number `value`; None if it is none, or not a whole one, or too large. 3.0 is a whole number."""
    if type(value) not in _NUMBERS or (whole and isinstance(value, float) and not value.is_integer()):
        return None
    try:
        return np.int64(int(value)) if whole else np.float64(value)
    except OverflowError:
        return None


def _arrays(values: list[Any], column: Column) -> Converted:
    """Return `values`, lists, as an array [rows, *shape]."""
    array = np.zeros((len(values), *column.shape), np.float64 if column.kind == "float32" else column.kind)
    problems = {}
    for row, value in enumerate(values):
        found = _array(value, column)
        if isinstance(found, str):
            problems[row] = found
        else:
            array[row] = found
    return Converted(array, problems)


def _array(value: Any, column: Column) -> Array | str:
    """Return `value` in the column's shape, of which a last axis of size 1 may be absent; or why it is not of it."""
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        array = np.empty(1, object)
    if not isinstance(value, list) or (array.size and array.dtype.kind not in _KINDS[column.kind]):
        return f"is {shown(value)}, expected a list of numbers of the shape {list(column.shape)}"
    if column.kind == "uint8" and array.size and not (array.min() >= 0 and array.max() <= np.iinfo(np.uint8).max):
        return f"has values from {array.min()} to {array.max()}, expected 0 to 255"
    if column.shape not in {array.shape, (*array.shape, 1)}:
        return f"has the shape {list(array.shape)}, expected {list(column.shape)}"
    return array.reshape(column.shape)


_SYNTAX: Final = Syntax("JSON lines", "\n", _rows, _convert)
