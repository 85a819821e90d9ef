"""Messages of validation in the form of Kubernetes' `field.Error`, such as `Invalid value: "x": must be an integer`."""

import difflib
import json
import re
from collections.abc import Iterable
from typing import Final

_MAX_TEXT: Final = 60
"""Characters of a value or name in a message, so that it stays readable in a terminal."""
_MAX_NUMBER: Final = 10**18
_MAX_SUPPORTED: Final = 12
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)

REQUIRED: Final = "Required value"
MUST_BE_STRING: Final = "must be a string; quote numbers and booleans"


def required(detail: str) -> str:
    """Return the message of an absent field."""
    return f"{REQUIRED}: {detail}"


def invalid(value: object, rule: str) -> str:
    """Return the message of an invalid value; `rule` is what it must be."""
    return f"Invalid value: {format_value(value)}: {rule}"


def unsupported(value: object, supported: Iterable[str]) -> str:
    """Return the message of a value that is not one of `supported`, with the closest one."""
    options = list(supported)
    better = suggest(value, options)
    listing = ", ".join(options[:_MAX_SUPPORTED]) + (", ..." if len(options) > _MAX_SUPPORTED else "")
    hint = f"; did you mean {better}?" if better else ""
    return f"Unsupported value: {format_value(value)}: supported values: {listing}{hint}"


def duplicate(value: str, detail: str) -> str:
    """Return the message of a value that must be unique."""
    return f"Duplicate value: {format_value(value)}: {detail}"


def forbidden(detail: str) -> str:
    """Return the message of a field that must not be set."""
    return f"Forbidden: {detail}"


def unknown_field(name: object, known: Iterable[str], otherwise: str) -> str:
    """Return the message of an unknown field, with the closest of the `known` ones, or with the advice `otherwise`."""
    better = suggest(name, known)
    return f"unknown field; did you mean {better}?" if better else f"unknown field; {otherwise}"


def format_value(value: object) -> str:
    """Return a value as in YAML, short enough for a line: `"x"`, `3`, `true`, `null`, `object`, `list`."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int) and abs(value) > _MAX_NUMBER:
        return "a huge number"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return json.dumps(shorten(value), ensure_ascii=False)
    if isinstance(value, dict | list | tuple):
        return "object" if isinstance(value, dict) else "list"
    return f"a value of type {type(value).__name__}"


def count(number: int, noun: str) -> str:
    """Return `1 replica`, `2 replicas`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def shorten(text: str) -> str:
    """Return `text`, truncated if it is too long for a line."""
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."


def suggest(word: object, options: Iterable[str]) -> str | None:
    """Return the option closest to `word`, ignoring case, or None if none is close or `word` is longer than a name."""
    if not isinstance(word, str) or len(word) > _MAX_TEXT:
        return None
    lower = {option.lower(): option for option in options}
    matches = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.65)
    return lower[matches[0]] if matches else None


def join_path(location: Iterable[object]) -> str:
    """Return the path of a location: `spec.worker.env[0].name`, other keys as `limits['nvidia.com/gpu']`."""
    return child_path("", *location).removeprefix(".")


def child_path(path: str, *location: object) -> str:
    """Return the path of `location` below `path`."""
    for part in location:
        plain = isinstance(part, str) and len(part) <= _MAX_TEXT and _PLAIN_KEY.fullmatch(part)
        key = repr(shorten(part)) if isinstance(part, str) else format_value(part)
        path += f".{part}" if plain else f"[{key}]"
    return path
