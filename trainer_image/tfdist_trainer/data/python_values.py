"""Converts values of Python, as JSON and Arrow have them, to values of a column. Needs only NumPy."""

from typing import Any, Final

import numpy as np

from tfdist_trainer.data.columns import Array, Converted, DataColumn, shown

_NUMBERS: Final = frozenset({int, float, bool})
_KINDS: Final = {"uint8": "iu", "int64": "iub", "float32": "fiub"}
"""NumPy kinds (`dtype.kind`) of the lists that a column may have."""


def convert(values: list[Any], column: DataColumn) -> Converted:
    """Return the values of a column, one for each row: numbers, lists of numbers or strings."""
    if column.shape:
        return _arrays(values, column)
    return _strings(values) if column.kind == "string" else _numbers(values, column)


def _strings(values: list[Any]) -> Converted:
    """Return `values` as strings; whole numbers are names of categories too."""
    array = np.empty(len(values), object)
    array[:] = [value if type(value) is str else str(value) for value in values]
    if set(map(type, values)) <= {str, int}:
        return Converted(array, {})
    invalid = (row for row, value in enumerate(values) if type(value) not in {str, int})
    return Converted(array, {row: f"is {shown(values[row])}, expected a string" for row in invalid})


def _numbers(values: list[Any], column: DataColumn) -> Converted:
    integral = column.kind == "int64"
    kind = np.int64 if integral else np.float64
    kinds = set(map(type, values))
    if kinds <= _NUMBERS and not (integral and float in kinds):
        try:
            return Converted(np.asarray(values, kind), {})
        except OverflowError:
            pass
    numbers = [_number(value, integral=integral) for value in values]
    expected = "a whole number" if integral else "a number"
    problems = {
        row: f"is {shown(values[row])}, expected {expected}" for row, value in enumerate(numbers) if value is None
    }
    return Converted(np.asarray([value or 0 for value in numbers], kind), problems)


def _number(value: Any, *, integral: bool) -> np.int64 | np.float64 | None:
    """Return the number `value`; None if it is not a number, not whole, or too large. 3.0 is a whole number."""
    if type(value) not in _NUMBERS or (integral and isinstance(value, float) and not value.is_integer()):
        return None
    try:
        return np.int64(int(value)) if integral else np.float64(value)
    except OverflowError:
        return None


def _arrays(values: list[Any], column: DataColumn) -> Converted:
    """Return `values`, lists, as an array [rows, *shape]."""
    array = np.zeros((len(values), *column.shape), np.float64 if column.kind == "float32" else column.kind)
    problems = {}
    for row, value in enumerate(values):
        parsed = _array(value, column)
        if isinstance(parsed, str):
            problems[row] = parsed
        else:
            array[row] = parsed
    return Converted(array, problems)


def _array(value: Any, column: DataColumn) -> Array | str:
    """Return `value` in the column's shape, of which a last axis of size 1 may be absent; or why it does not fit."""
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
