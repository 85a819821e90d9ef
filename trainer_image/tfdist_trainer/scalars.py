"""Numbers out of the values that scripts report: Python's and NumPy's, tensors, variables, of any Keras or strategy."""

import math
from collections.abc import Mapping
from typing import Any, Final

_MAX_SAFE_INTEGER: Final = 2**53 - 1
_NUMBER_KINDS: Final = "iufV"
"""Kinds of NumPy's types: integers, floats, and `bfloat16`, which NumPy does not define."""


def finite_number(value: Any) -> float | None:
    """Return `value` as a float, or None if it is not exactly one finite number.

    A variable that is mirrored over replicas is one number, although `float` rejects it; a value for each replica, a
    vector, a text, a boolean and a symbolic tensor are none.
    """
    try:
        # First, as to read a large tensor from a device for nothing costs time.
        if len(getattr(value, "shape", ())) > 0:
            return None
        value = value.numpy() if hasattr(value, "numpy") else value
        kind = getattr(getattr(value, "dtype", None), "kind", "f")
        if isinstance(value, bool | str | bytes | bytearray) or kind not in _NUMBER_KINDS:
            return None
        number = float(value)
    except Exception:  # a value of any library, and a report never fails a script
        return None
    return number if math.isfinite(number) else None


def count(value: Any) -> int | None:
    """Return `value` as an integer, or None if it is not a count: `tf.data` has -1 and -2 for an unknown length."""
    number = finite_number(value)
    return int(number) if number is not None and 0 <= number <= _MAX_SAFE_INTEGER else None


def finite_numbers(values: Any) -> dict[str, float]:
    """Return the finite numbers in a mapping by name; nothing for any other value."""
    if not isinstance(values, Mapping):
        return {}
    numbers = {str(name): finite_number(value) for name, value in values.items()}
    return {name: number for name, number in numbers.items() if number is not None}
