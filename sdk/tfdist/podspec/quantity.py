"""Kubernetes' quantities (`1`, `500m`, `1Gi`, `1e3`): parsing to exact numbers."""

import math
import re
from fractions import Fraction
from typing import Final

from tfdist import messages
from tfdist.api import patterns

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_UNITS: Final = {s: Fraction(10) ** n for s, n in _DECIMAL.items()} | {s: Fraction(2) ** n for s, n in _BINARY.items()}
_GRAMMAR: Final = re.compile(patterns.QUANTITY)

_RULE: Final = "must be a quantity, such as 2, 500m or 4Gi"
_MAX_LENGTH: Final = 100
_MAX_BINARY: Final = Fraction(2**63 - 1)
_NANO: Final = 10**9


def parse_quantity(value: object) -> Fraction:
    """Return the exact number of a quantity, a string or a number of YAML.

    As in Kubernetes, fractions below 1e-9 are rounded up, and a number with a binary suffix such as `Gi` is limited to
    2^63 - 1.

    Raises:
        ValueError: it is not a quantity; the message suits a field error.
    """
    text = _text(value)
    match = _GRAMMAR.fullmatch(text)
    if not match:
        raise ValueError(_error(text))
    number, suffix = Fraction(match[1]), match[5] or ""
    exact = number * (_UNITS[suffix] if suffix in _UNITS else Fraction(10) ** int(suffix[1:]))
    rounded = Fraction(math.ceil(exact * _NANO), _NANO)
    return min(rounded, _MAX_BINARY) if suffix in _BINARY else rounded


def _text(value: object) -> str:
    if isinstance(value, str) and len(value) <= _MAX_LENGTH:
        return value.strip(" \t\r\n")
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 10**_MAX_LENGTH:
        return str(value)
    raise ValueError(messages.invalid(value, _RULE))


def _error(text: str) -> str:
    """Return the error of `text`, with the quantity that a `B`, a space or a wrong case suggests."""
    bare = re.sub(r"\s|[bB]$", "", text)
    for better in (bare, bare[:-2] + bare[-2:].capitalize(), bare[:-1] + bare[-1:].swapcase()):
        if _GRAMMAR.fullmatch(better):
            return f"{messages.invalid(text, _RULE)}; did you mean {better}?"
    return messages.invalid(text, _RULE)
