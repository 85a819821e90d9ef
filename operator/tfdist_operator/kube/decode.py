"""Parses the API server's JSON at any depth of nesting, and in lines that arrive in any pieces.

The API server stores 10,000 levels in the parts of a job without a schema; the parser rejects more than 1,024. Values
deeper than `MAX_DEPTH` are then read as null. That is far deeper than validation accepts, so such a job is still
invalid for its depth, and its name, version and status are known.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson
from pydantic_core import SchemaValidator, ValidationError, core_schema

MAX_DEPTH: Final = 200
_SHALLOW: Final = SchemaValidator(core_schema.typed_dict_schema({}, extra_behavior="ignore"))
"""Accepts objects of JSON that are not deeper than `MAX_DEPTH` or little more. It makes no values, so that it costs
less than parsing."""
_BRACKET: Final = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))*+([\[\]{}]|\Z)', re.DOTALL)
"""A bracket outside of strings, or the end of the text, with the text before it. It matches any text, without
backtracking: an attempt that fails would be repeated from each of its characters."""


class LineBuffer:
    """The lines of a stream that arrives in pieces: a line costs time in proportion to its length in any of them."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.pending = 0
        """Bytes of the line that is not complete."""

    def feed(self, piece: bytes) -> list[bytes]:
        """Add the next bytes; return the lines that are complete now, without their ends."""
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0] = b"".join([*self._pieces, lines[0]])
            self._pieces, self.pending = [], 0
        self._pieces.append(rest)
        self.pending += len(rest)
        return lines


def decode(text: bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: the text is not JSON.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        flat = flattened(text)
        if flat == text:
            raise
        return orjson.loads(flat)


def flattened(text: bytes) -> bytes:
    """Return a JSON text with null in place of values deeper than `MAX_DEPTH`, for another parser."""
    return text if _is_shallow(text) else b"".join(_cut(text))


def _is_shallow(text: bytes) -> bool:
    if text.count(b"{") + text.count(b"[") <= MAX_DEPTH:
        return True
    try:
        _SHALLOW.validate_json(text)
    except ValidationError:
        return False
    return True


def _cut(text: bytes) -> Iterator[bytes]:
    """Yield `text` with null in place of every object and list that is deeper than `MAX_DEPTH`."""
    depth, end = 0, 0
    for bracket in _BRACKET.finditer(text):
        if not bracket[1]:
            break
        if bracket[1] in b"[{":
            depth += 1
            if depth == MAX_DEPTH + 1:
                yield text[end : bracket.start(1)] + b"null"
        else:
            if depth == MAX_DEPTH + 1:
                end = bracket.end()
            depth -= 1
    yield text[end:] if depth <= MAX_DEPTH else b""
