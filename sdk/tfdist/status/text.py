"""Texts of conditions, events and records: they are printed to terminals, and contain untrusted parts.

Termination messages, the kubelet, the API server and manifests contribute to them. Their control characters would be
executed by a terminal, or reorder the text around them; a part that two of them report would be read twice.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from tfdist.printable import is_printable, printable

LONGEST_MESSAGE: Final = 4096
"""Maximum number of characters of a message."""
_LONGEST_TEXT: Final = 4 * LONGEST_MESSAGE
"""Characters of a text of which its message is made: manifests and pods contribute texts of any length."""
_LONGEST_KEPT: Final = 1024
_LEAST_WORDS: Final = 2
"""A clause of one word, such as a name, may be repeated."""
_MOST_OBJECTS: Final = 8
"""Parts before the last one in a clause of which it is known what follows them."""


def message(text: str) -> str:
    """Return the message of a condition or event: without control characters, and each clause once.

    It has at most 4096 characters; a longer one ends with `...`.
    """
    # Plans make the same short texts again and again; long ones, of tenants, would fill the memory.
    return _short_message(text) if len(text) <= _LONGEST_KEPT else _message(text)


@lru_cache(512)
def _short_message(text: str) -> str:
    return _message(text)


def _message(text: str) -> str:
    clauses: list[str] = []
    known: set[str] = set()
    for clause in map(str.strip, printable(text[:_LONGEST_TEXT]).split("; ")):
        if clause not in known or len(clause.split()) < _LEAST_WORDS:
            clauses.append(clause)
            known.update(_parts(clause))
    result = "; ".join(clauses)
    is_whole = len(text) <= _LONGEST_TEXT and len(result) <= LONGEST_MESSAGE
    return result if is_whole else f"{result[: LONGEST_MESSAGE - 3]}..."


def _parts(clause: str) -> Iterator[str]:
    """Yield a clause, and what follows each object in it: `CLAUSE` of `worker-0: CLAUSE`."""
    yield clause
    for _ in range(_MOST_OBJECTS):
        _, separator, clause = clause.partition(": ")
        if not separator:
            return
        yield clause


_CONTROL_CHARACTER: Final = re.compile(r'\\[^"\\/nt]')
"""An escape of JSON for anything but visible characters, tab and line feed."""


def is_printable_json(text: str) -> bool:
    """Return whether every text in the JSON `text` is printable; False also for some backslashes in it."""
    return is_printable(text) and _CONTROL_CHARACTER.search(text) is None


def printable_status(value: Any) -> Any:
    """Return a JSON value, such as a status, with every text in it printable."""
    match value:
        case str():
            return printable(value)
        case dict():
            return {printable(name): printable_status(inner) for name, inner in value.items()}
        case list() | tuple():
            return [printable_status(inner) for inner in value]
        case _:
            return value
