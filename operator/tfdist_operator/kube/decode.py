"""Parses the API server's JSON at any depth of nesting.

The API server stores 10,000 levels in the parts of a job without a schema; the parser rejects more than 1,024. Values
deeper than `MAX_DEPTH` are then read as null. That is far deeper than validation accepts, so such a job is still
invalid for its depth, and its name, version and status are known.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

MAX_DEPTH: Final = 200
_BRACKET: Final = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+([\[\]{}]|\Z)')
"""A bracket outside of strings, or the end of the text, with the text before it. It matches without backtracking."""


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
    deep = text.count(b"{") + text.count(b"[") > MAX_DEPTH
    return b"".join(_cut(text)) if deep else text


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
