"""Kubernetes' quantities (`1`, `500m`, `1Gi`, `1e3`): parsing to exact numbers, and formatting."""

import math
import re
from fractions import Fraction
from typing import Final

from tfdist import messages

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_UNITS: Final = {s: Fraction(10) ** n for s, n in _DECIMAL.items()} | {s: Fraction(2) ** n for s, n in _BINARY.items()}
_GRAMMAR: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[numkMGTPE]?|[KMGTPE]i))"
)
"""As documented by Kubernetes, whose parser also accepts a suffix or sign alone as 0."""

_RULE: Final = "must be a quantity, such as 2, 500m or 4Gi"
_MAX_LENGTH: Final = 100
_MAX_EXPONENT: Final = 100
"""Limits the size of exact numbers."""
_MAX_BINARY: Final = Fraction(2**63 - 1)
_NANO: Final = 10**9


def parse_quantity(value: object) -> Fraction:
    """Return the exact number of a quantity, a string or a number of YAML.

    As in Kubernetes, fractions below 1e-9 are rounded up, and a number with a binary suffix such as `Gi` is limited to
    2^63 - 1.

    Raises:
        ValueError: it is not a quantity; the message is that of a field error.
    """
    text = _text(value)
    match = _GRAMMAR.fullmatch(text)
    if not match:
        raise ValueError(_error(text))
    number, suffix = Fraction(match["number"]), match["suffix"]
    if suffix in _BINARY:
        return _rounded(max(-_MAX_BINARY, min(_MAX_BINARY, number * _UNITS[suffix])))
    if match["exponent"] is None:
        return _rounded(number * _UNITS[suffix])
    exponent = int(match["exponent"])
    if exponent > _MAX_EXPONENT:
        raise ValueError(messages.invalid(text, "must be a smaller quantity"))
    return _rounded(number * Fraction(10) ** max(exponent, -2 * _MAX_EXPONENT))


def format_quantity(number: Fraction | int, *, binary: bool = False) -> str:
    """Return `number` in Kubernetes' canonical form: the largest suffix without a fraction, a binary one if `binary`.

    Fractions below 1e-9 are rounded up.
    """
    exact = _rounded(Fraction(number))
    if exact == 0:
        return "0"
    if binary and exact.denominator == 1 and abs(exact) >= _UNITS["Ki"]:
        units = {"": Fraction(1)} | {suffix: _UNITS[suffix] for suffix in _BINARY}
    else:
        units = {suffix: _UNITS[suffix] for suffix in _DECIMAL}
    suffix = next(suffix for suffix, unit in reversed(units.items()) if exact % unit == 0)
    return f"{exact / units[suffix]}{suffix}"


def _text(value: object) -> str:
    if isinstance(value, str) and len(value) <= _MAX_LENGTH:
        return value.strip(" \t\r\n")
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 10**_MAX_EXPONENT:
        return str(value)
    raise ValueError(messages.invalid(value, _RULE))


def _error(text: str) -> str:
    """Return the error of `text`, with the quantity that a `B`, a space or a wrong case suggests."""
    bare = re.sub(r"\s|[bB]$", "", text)
    for better in (bare, bare[:-2] + bare[-2:].capitalize(), bare[:-1] + bare[-1:].swapcase()):
        if _GRAMMAR.fullmatch(better):
            return f"{messages.invalid(text, _RULE)}; did you mean {better}?"
    return messages.invalid(text, _RULE)


def _rounded(number: Fraction) -> Fraction:
    """Return `number` with at most nine decimal places, rounded away from zero."""
    nanos = math.ceil(abs(number) * _NANO)
    return Fraction(nanos if number >= 0 else -nanos, _NANO)
