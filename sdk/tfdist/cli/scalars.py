"""Values of unquoted YAML scalars with the semantics of kubectl (sigs.k8s.io/yaml), a variant of YAML 1.1.

The differences from PyYAML matter in manifests: `22:30` and `2001-01-01` are text, `1e3` is a number, `y` and `n` are
booleans. With other rules the command would check another manifest than the one that kubectl applies.
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
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
SPECIAL_STARTS: Final = _NUMBER_STARTS | frozenset("yYnNtTfFoO~<")
"""First characters of all scalars that may be other than text."""
_NOT_FINITE: Final = re.compile(r"\.(nan|NaN|NAN)|[-+]?\.(inf|Inf|INF)")
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_BASES: Final = (16, 2, 8, 10)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LONGEST_NUMBER: Final = 400
"""Limit on the length of a number, in characters; JSON has no longer ones, and conversion takes quadratic time."""
_LARGEST_WHOLE: Final = 1e21
"""The API server returns smaller whole numbers without a fraction: 2.0 becomes 2."""


def plain(text: str) -> Scalar:
    """Return the value of the unquoted scalar `text`.

    Raises:
        ValueError: NaN or infinity, which JSON does not have.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not a number in JSON")
    return _number(text)


def _number(text: str) -> Scalar:
    digits = text if text.startswith(".") else text.replace("_", "")
    if len(digits) > _LONGEST_NUMBER:
        return text
    if match := _INTEGER.fullmatch(digits):
        base, value = next((b, v) for b, v in zip(_BASES, match.groups()[1:], strict=True) if v is not None)
        return int(f"{match[1]}{value}", base)
    if _FLOAT.fullmatch(digits):
        value = float(digits)
        if math.isfinite(value):
            return int(value) if value.is_integer() and abs(value) < _LARGEST_WHOLE else value
    return text


def reads_as_text(text: str) -> bool:
    """Return whether the unquoted scalar `text` is text."""
    try:
        return isinstance(plain(text), str)
    except ValueError:
        return False
