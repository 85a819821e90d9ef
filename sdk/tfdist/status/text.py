"""Texts of conditions, events and records: they are printed to terminals, and contain untrusted parts.

Termination messages, the kubelet, the API server and manifests contribute to them. Their control characters would be
executed by a terminal, or reorder the text around them; a part that two of them report would be read twice.
"""

import re
from typing import Any, Final

from tfdist.contract_model import is_printable, printable

_LEAST_WORDS = 2
"""A clause of one word, such as a name, may be repeated."""


def message(text: str) -> str:
    """Return the message of a condition or event: without control characters, and each clause once."""
    clauses: list[str] = []
    for clause in map(str.strip, printable(text).split("; ")):
        if len(clause.split()) < _LEAST_WORDS or not any(_contains(other, clause) for other in clauses):
            clauses.append(clause)
    return "; ".join(clauses)


def _contains(other: str, clause: str) -> bool:
    """Return whether a clause is `other`, or the part of it that follows an object: `worker-0: CLAUSE`."""
    return other == clause or other.endswith(f": {clause}")


_CONTROL_CHARACTER: Final = re.compile(r'\\[^"\\/nt]')
"""An escape of JSON other than those of visible characters, tab and line feed."""


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
