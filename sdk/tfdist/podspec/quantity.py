"""Kubernetes' quantities (`1`, `500m`, `1Gi`, `1e3`) as exact numbers, and back."""

import math
import re
from fractions import Fraction
from typing import Final

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_UNITS: Final = {s: Fraction(10) ** n for s, n in _DECIMAL.items()} | {s: Fraction(2) ** n for s, n in _BINARY.items()}
_GRAMMAR: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[numkMGTPE]?|[KMGTPE]i))"
)
"""As Kubernetes documents it; its parser also takes a suffix or a sign alone for 0, which nobody means."""

_EXAMPLES: Final = "write a number with or without a suffix, such as 2, 500m or 4Gi"
_LONGEST: Final = 100
_LARGEST_EXPONENT: Final = 100
"""Beyond it no amount of anything is meant, and exact numbers would eat the memory."""
_LARGEST_BINARY: Final = Fraction(2**63 - 1)
_NANO: Final = 10**9


def parse_quantity(value: object) -> Fraction:
    """Return the exact number that a quantity of a manifest stands for: a text, or a number as YAML has them.

    As in Kubernetes a fraction below a billionth is rounded up, and a number with a suffix such as `Gi` goes no
    further than 2^63 - 1.

    Raises:
        ValueError: it is no quantity; the message says what to write.
    """
    text = _text(value)
    match = _GRAMMAR.fullmatch(text)
    if not match:
        raise ValueError(_advice(text))
    number, suffix = Fraction(match["number"]), match["suffix"]
    if suffix in _BINARY:
        return _rounded(max(-_LARGEST_BINARY, min(_LARGEST_BINARY, number * _UNITS[suffix])))
    if match["exponent"] is None:
        return _rounded(number * _UNITS[suffix])
    exponent = int(match["exponent"])
    if exponent > _LARGEST_EXPONENT:
        msg = f"{text!r} is too large a quantity"
        raise ValueError(msg)
    return _rounded(number * Fraction(10) ** max(exponent, -2 * _LARGEST_EXPONENT))


def format_quantity(number: Fraction | int, *, binary: bool = False) -> str:
    """Return `number` as Kubernetes writes it: the largest suffix without a fraction, of 1024 where `binary`.

    What is finer than a billionth is rounded up.
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
    if isinstance(value, str) and len(value) <= _LONGEST:
        return value.strip(" \t\r\n")
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 10**_LARGEST_EXPONENT:
        return str(value)
    msg = f"no quantity; {_EXAMPLES}"
    raise ValueError(msg)


def _advice(text: str) -> str:
    """Return what to write instead of `text`; a `B`, a space or the wrong case are the usual mistakes."""
    bare = re.sub(r"\s|[bB]$", "", text)
    for better in (bare, bare[:-2] + bare[-2:].capitalize(), bare[:-1] + bare[-1:].swapcase()):
        if _GRAMMAR.fullmatch(better):
            return f"{text!r} is no quantity; did you mean {better!r}?"
    return f"{text!r} is no quantity; {_EXAMPLES}"


def _rounded(number: Fraction) -> Fraction:
    """Return `number` with at most nine decimal places, away from zero: who asks for a little gets a little."""
    nanos = math.ceil(abs(number) * _NANO)
    return Fraction(nanos if number >= 0 else -nanos, _NANO)
