"""The columns of an example: names with a type, a shape and bounds. Needs only NumPy.

Every format returns the same columns, and every value is validated against its column, so that a program never receives
a value that its configuration does not allow.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tfdist_trainer import log
from tfdist_trainer.errors import DataMalformedError

Array = npt.NDArray[Any]
Kind = Literal["uint8", "int64", "float32", "string", "encoded"]
"""`encoded`: a JPEG or PNG file, a string of bytes."""

MAX_LOGGED: Final = 5
"""Bad records that are logged one by one; further ones are only counted."""


_MAX_SHOWN: Final = 100
_FLOAT32_MAX: Final = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class DataColumn:
    """One value of each example: an array of `shape`."""

    name: str
    kind: Kind
    shape: tuple[int, ...] = ()
    below: int | None = None
    """Integers must be `minimum` to `below` - 1."""
    minimum: int = 0
    remedy: str = ""
    """What to do about other integers, for the error message."""
    choices: tuple[str, ...] = ()
    """The allowed strings. The program receives their indices in this tuple, int64."""
    positive: bool = False
    """Numbers must not be negative."""
    channels: int = 0
    """Channels to which encoded images are converted."""

    def wrong(self, values: Array) -> npt.NDArray[np.bool_]:
        """Return which of `values`, [examples, *shape], are not allowed, bool [examples]."""
        # Any value of these types is valid.
        if self.kind in {"uint8", "string", "encoded"} and not self.choices:
            return np.zeros(len(values), np.bool_)
        bad = np.zeros(values.shape, np.bool_)
        if self.below is not None:
            bad |= (values < self.minimum) | (values >= self.below)
        if self.kind == "float32":
            bad |= self._not_float32(values)
        if self.choices:
            bad |= self._not_chosen(values)
        return np.asarray(bad.any(axis=tuple(range(1, bad.ndim))), np.bool_)

    def _not_float32(self, values: Array) -> npt.NDArray[np.bool_]:
        """Return which of `values` are not finite as float32, the type in which the program receives them."""
        with np.errstate(over="ignore"):
            bad = ~np.isfinite(values.astype(np.float32, copy=False))
        return bad | ~(values >= 0) if self.positive else bad

    def _not_chosen(self, values: Array) -> npt.NDArray[np.bool_]:
        if values.dtype != object:
            return ~np.isin(values, self.choices)
        # For objects `np.isin` compares every value with every choice.
        choices = frozenset(self.choices)
        return np.array([value not in choices for value in values.flat], np.bool_).reshape(values.shape)

    def complain(self, value: Array) -> str:
        """Return an error message for one example's `value`, for which `wrong` is true."""
        if self.shape:
            value = value[self._not_float32(value)] if self.kind == "float32" else value
            value = value.reshape(-1)[:1]
        if self.kind == "float32" and np.isfinite(value).all() and (np.abs(value) > _FLOAT32_MAX).all():
            return f"{self.name!r} is {shown(value.item())}, beyond the range of float32, {_FLOAT32_MAX:.1e}"
        if self.below is not None:
            expected = f"{self.minimum} to {self.below - 1}{'; ' if self.remedy else ''}{self.remedy}"
        elif self.choices:
            expected = f"one of {', '.join(self.choices[:10])}{', ...' if len(self.choices) > 10 else ''}"  # noqa: PLR2004
        else:
            expected = "a number that is not negative" if self.positive else "a finite number"
        return f"{self.name!r} is {shown(value.item() if value.size == 1 else value)}, expected {expected}"

    def program_values(self, values: Array) -> Array:
        """Return `values` as the program receives them: of the column's type, or indices in `choices`."""
        if self.choices:
            order = np.argsort(self.choices)
            positions = np.searchsorted(np.asarray(self.choices)[order], values.astype(str))
            return order[positions].astype(np.int64)
        return values.astype(object if self.kind in {"string", "encoded"} else self.kind)

    def empty(self) -> Array:
        """Return the column of zero examples."""
        return self.program_values(np.empty((0, *self.shape), str if self.kind in {"string", "encoded"} else self.kind))


def shown(value: object) -> str:
    """Return `value` for a message, shortened: a field may be a whole document."""
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}... ({len(text)} characters)"


class Converted(NamedTuple):
    """The values of a column, [rows, ...], and the problem of each row whose value is not of the column's type."""

    values: Array
    problems: Mapping[int, str]


class BadRecords:
    """The policy for bad records and files: fail, or skip and count them."""

    def __init__(self, *, skip: bool) -> None:
        self.skip = skip
        self.count = 0
        self.first: str | None = None
        """The first bad record that was skipped, with its reason."""

    def report(self, where: str, message: str, count: int = 1) -> None:
        """Log and count `count` bad records; `where` starts with the file's name.

        Raises:
            DataMalformedError: bad records are not skipped.
        """
        if not self.skip:
            raise DataMalformedError(f"{where}: {message}")
        if self.count < MAX_LOGGED:
            log.event("bad-record-skipped", where=where, message=message, count=count)
        self.first = self.first or f"{where}: {message}"
        self.count += count


def check_rows(
    columns: Sequence[DataColumn], values: Mapping[str, Array], where: Callable[[int], str], bad: BadRecords
) -> dict[str, Array]:
    """Return `values`, arrays [examples, ...] by column, as the program receives them and without bad records.

    Args:
        columns: the expected columns.
        values: an array for each column.
        where: returns the location of an example by its index in `values`.
        bad: called for each example that has a bad value.

    Raises:
        DataMalformedError: an example has a bad value, and `bad` does not skip.
    """
    invalid = np.stack([column.wrong(values[column.name]) for column in columns])
    bad_rows = invalid.any(axis=0)
    # One report for each record, by its first bad column.
    for row in np.flatnonzero(bad_rows):
        column = columns[int(np.flatnonzero(invalid[:, row])[0])]
        bad.report(where(int(row)), column.complain(np.asarray(values[column.name][row])))
    return {column.name: column.program_values(values[column.name][~bad_rows]) for column in columns}


def check_converted(
    columns: Sequence[DataColumn], converted: Mapping[str, Converted], where: Callable[[int], str], bad: BadRecords
) -> dict[str, Array]:
    """Return the values of `converted`, by column, as `check_rows` does, without rows that have a problem."""
    valid = np.ones(len(converted[columns[0].name].values), np.bool_)
    for column in columns:
        problems = converted[column.name].problems
        for row, problem in problems.items():
            # A record is bad once, whatever number of its columns is.
            if valid[row]:
                bad.report(where(row), f"{column.name!r} {problem}")
        valid[list(problems)] = False
    valid_rows = np.flatnonzero(valid)
    values = {column.name: converted[column.name].values[valid] for column in columns}
    return check_rows(columns, values, lambda row: where(int(valid_rows[row])), bad)
