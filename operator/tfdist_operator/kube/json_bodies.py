"""The JSON of requests and responses: texts of any depth, lines of a watch, pages of lists, and merge patches.

The API server stores 10,000 levels in the parts of a job without a schema; the parser rejects more than 1,024. Values
deeper than `MAX_DEPTH` are then read as null. That is far deeper than validation accepts, so such a job is still
invalid for its depth, and its name, version and status are known.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import orjson
from pydantic_core import SchemaValidator, ValidationError, core_schema

from tfdist_operator.kube.errors import UnavailableError

Json = dict[str, Any]

MAX_DEPTH: Final = 200
_SHALLOW: Final = SchemaValidator(core_schema.typed_dict_schema({}, extra_behavior="ignore"))
"""Accepts objects of JSON that are not deeper than `MAX_DEPTH` or little more. It makes no values, so that it costs
less than parsing."""
_BRACKET: Final = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))*+([\[\]{}]|\Z)', re.DOTALL)
"""A bracket outside of strings, or the end of the text, with the text before it. It matches any text, without
backtracking: an attempt that fails would be repeated from each of its characters."""
_OK: Final = 200


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
        # Only now, since nearly every text is shallow: checking the depth first would cost a second pass for each.
        flat = flatten(text)
        if flat == text:
            raise
        return orjson.loads(flat)


def flatten(text: bytes) -> bytes:
    """Return a JSON text with null in place of values deeper than `MAX_DEPTH`, for another parser."""
    return text if _is_shallow(text) else b"".join(_cut(text))


def _is_shallow(text: bytes) -> bool:
    # Most texts have fewer brackets than levels are allowed, whatever they mean: counting bytes is the cheapest proof.
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


def list_items(page: Json) -> list[Any]:
    """Return the objects of a page; the API server encodes an empty list of metadata as null.

    Raises:
        UnavailableError: the page is not a list.
    """
    # A 200 without a list, as of a proxy, must not be taken for a list of no objects: the caches would be emptied.
    with expect_list():
        page_items = page["items"]
        if page_items is not None and not isinstance(page_items, list):
            msg = f"items is {type(page_items).__name__}"
            raise TypeError(msg)
    return page_items or []


@contextmanager
def expect_list() -> Iterator[None]:
    """Convert the errors of reading a response that is not a list of the API server.

    Raises:
        UnavailableError: the block raised such an error.
    """
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnavailableError(_OK, "Malformed", f"the answer is not a list of the API server: {error!r}") from error


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that turns `old` into `new`: changed members, and null for removed ones."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        previous = old.get(key)
        if key in old and previous == value:
            continue
        if isinstance(value, Mapping) and isinstance(previous, Mapping):
            value = merge_patch(previous, value)  # noqa: PLW2901  the nested change stands for the member
        patch[key] = value
    return patch
