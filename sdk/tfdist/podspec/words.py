"""The words of the checks: what was given, and what may have been meant."""

import difflib
from collections.abc import Iterable
from typing import Final

_LONGEST_TEXT: Final = 60
_LONGEST_NUMBER: Final = 10**18


def given(value: object) -> str:
    """Return what `value` is, in words short enough for a line: `the text 'x'`, `a list`."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) > _LONGEST_NUMBER:
        return "a huge number"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {shortened(value)!r}"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return f"a value of type {type(value).__name__}"


def shortened(text: str) -> str:
    """Return `text`, or its beginning where it is too long for a line."""
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."


def meant(word: object, options: Iterable[str]) -> str | None:
    """Return the one of `options` that `word` is most like, whatever its case, or None."""
    if not isinstance(word, str):
        return None
    lower = {option.lower(): option for option in options}
    found = difflib.get_close_matches(word[:_LONGEST_TEXT].lower(), lower, n=1, cutoff=0.7)
    return lower[found[0]] if found else None
