"""What a YAML scalar without quotes means to kubectl, which reads YAML 1.1 in its own way and sends JSON.

It differs from PyYAML where it matters: `22:30` and `2001-01-01` are text, `1e3` is a number, `y` and `n` are booleans.
A manifest that is checked here under other rules than those that kubectl applies would be another manifest.
"""

import math
import re
from typing import Final

Scalar = str | int | float | bool | None

_WORDS: Final[dict[str, Scalar]] = {
    **{form: True for word in ("y", "yes", "true", "on") for form in (word, word.capitalize(), word.upper())},
    **{form: False for word in ("n", "no", "false", "off") for form in (word, word.capitalize(), word.upper())},
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_NOT_FINITE: Final = re.compile(r"\.(nan|NaN|NAN)|[-+]?\.(inf|Inf|INF)")
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_BASES: Final = (16, 2, 8, 10)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LONGEST_NUMBER: Final = 400
"""Longest text that is tried as a number: more digits fit no number of JSON."""
_LARGEST_WHOLE: Final = 1e21
"""From here on JSON writes whole numbers with an exponent."""

SPECIAL_STARTS: Final = frozenset("yYnNtTfFoO~+-.0123456789<")
"""First characters of every scalar that may be anything but text."""


def plain(text: str) -> Scalar:
    """Return what the unquoted scalar `text` means.

    Raises:
        ValueError: for NaN and infinity, which JSON cannot say.
    """
    if text in _WORDS:
        return _WORDS[text]
    if not text[:1].isascii() or text[0].isalpha():
        return text
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is no number that JSON and Kubernetes know")
    return _number(text)


def _number(text: str) -> Scalar:
    digits = text if text.startswith(".") else text.replace("_", "")
    if len(digits) > _LONGEST_NUMBER:
        return text
    if found := _INTEGER.fullmatch(digits):
        base, value = next((b, v) for b, v in zip(_BASES, found.groups()[1:], strict=True) if v is not None)
        return int(f"{found[1]}{value}", base)
    if _FLOAT.fullmatch(digits):
        value = float(digits)
        return whole(value) if math.isfinite(value) else text
    return text


def whole(value: float) -> int | float:
    """Return a whole number as an int, as it comes out of the API server: 2.0 is written 2 in JSON."""
    return int(value) if value.is_integer() and abs(value) < _LARGEST_WHOLE else value


def reads_as_text(text: str) -> bool:
    """Return whether `text` stays text when it is written without quotes."""
    try:
        return isinstance(plain(text), str)
    except ValueError:
        return False
