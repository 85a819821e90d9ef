"""JSON text, one value or several, as strict as the reading of YAML: no key twice, no NaN."""

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from yaml.nodes import Node

from tfdist.cli import scalars, yaml_reader
from tfdist.cli.errors import DocumentError, Position

Tree = Callable[[], Node | None]

_SPACE: Final = re.compile(r"\s*")
_NOT_FINITE: Final = re.compile(r'"(?:[^"\\]|\\.)*"|(-?(?:NaN|Infinity))')
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]..")
_LONGEST_NUMBER: Final = 400


class NotJson(Exception):  # noqa: N818  an answer, not a failure: the text may be YAML
    """The text is something else; holds the error that says where."""


class _Refused(Exception):  # noqa: N818  never leaves this module
    """Well-formed JSON that a manifest cannot hold."""


def read(text: str, source: str) -> Iterator[tuple[Any, Tree]]:
    """Yield each value of a stream of JSON, with what makes its tree of positions.

    Raises:
        NotJson: the text is no JSON; nothing was yielded that is not.
        DocumentError: it is JSON, with a key twice, NaN, or a number beyond measure.
    """
    index = _space(text, 0)
    while index < len(text):
        value, end = _decode(text, index, source)
        yield value, _tree(text, index, end, source)
        index = _space(text, end)


def _space(text: str, index: int) -> int:
    found = _SPACE.match(text, index)
    return found.end() if found else index


def _decode(text: str, index: int, source: str) -> tuple[Any, int]:
    try:
        value, end = _DECODER.raw_decode(text, index)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        message = f"no JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        raise NotJson(DocumentError(source, message, Position(error.lineno, error.colno))) from None
    except UnicodeEncodeError:
        raise DocumentError(source, r"half of a pair of \ud800 escapes; write the character itself") from None
    except RecursionError:
        raise DocumentError(source, "nests too deep; no Kubernetes object does") from None
    except _Refused as refused:
        raise _with_position(str(refused), text, index, source) from None
    return value, end


def _with_position(message: str, text: str, index: int, source: str) -> DocumentError:
    """Return the error for what the decoder, which knows no positions, refused."""
    for found in _NOT_FINITE.finditer(text, index):
        if found[1]:
            return DocumentError(source, message, _position(text, found.start()))
    try:
        # the reader of YAML refuses the same key, and knows where it is
        next(yaml_reader.read(_padded(text, index, len(text)), source), None)
    except DocumentError as error:
        if "twice" in error.message:
            return error
    return DocumentError(source, message, _position(text, index))


def _tree(text: str, start: int, end: int, source: str) -> Tree:
    def tree() -> Node | None:
        try:
            return next(yaml_reader.compose(_padded(text, start, end), source), None)
        except DocumentError:
            return None

    return tree


def _padded(text: str, start: int, end: int) -> str:
    """Return a part of the text as YAML whose lines and columns are those of the whole."""
    line, column = _position(text, start)
    part = _SURROGATE.sub(r"\\uFFFD", text[start:end])  # a pair of escapes, which YAML does not know
    return "\n" * (line - 1) + " " * (column - 1) + part


def _position(text: str, index: int) -> Position:
    return Position(text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _Refused(f"key {twice!r} is given twice; one of the two would be lost")
    return result


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Refused(f"{text} is too large a number")
    return scalars.whole(value)


def _int(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise _Refused(f"a number of {len(text)} digits is too large")
    return int(text)


def _constant(text: str) -> float:
    raise _Refused(f"{text} is no number that JSON and Kubernetes know; put it in quotes if text is meant")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_float, parse_int=_int, parse_constant=_constant
)
