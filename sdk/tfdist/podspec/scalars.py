"""Texts, numbers, quantities and the like: what is wrong with one, in words."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from tfdist.podspec.quantity import parse_quantity
from tfdist.podspec.schema import Field
from tfdist.podspec.words import given, meant

_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})")
_TIME_EXAMPLE: Final = "a time such as 2030-01-01T00:00:00Z"


def mistake(value: Any, field: Field) -> str | None:
    """Return what is wrong with `value` as a value of the primitive type of `field`, or None."""
    return _CHECKS[field.type](value, field)


def _text(value: Any, field: Field) -> str | None:
    if field.enum:
        return _one_of(value, field.enum)
    if isinstance(value, str):
        return None
    text = f"must be a text, got {given(value)}"
    return f"{text}: put it in quotes" if isinstance(value, bool | int | float) else text


def _one_of(value: Any, options: tuple[str, ...]) -> str | None:
    # An empty text is an absent one to Kubernetes, and templating tools write it.
    if isinstance(value, str) and (not value or value in options):
        return None
    better = meant(value, options)
    hint = f"; did you mean {better}?" if better else ""
    return f"must be one of {', '.join(filter(None, options))}, got {given(value)}{hint}"


def _boolean(value: Any, _: Field) -> str | None:
    return None if isinstance(value, bool) else f"must be true or false, got {given(value)}"


def _integer(value: Any, field: Field) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return f"must be an integer, got {given(value)}"
    bits = 64 if field.type == "int64" else 32
    return None if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else f"must fit into {bits} bits, got {given(value)}"


def _integer_or_text(value: Any, field: Field) -> str | None:
    if isinstance(value, str):
        return None
    text = _integer(value, field)
    return text and text.replace("an integer", "an integer or a text")


def _quantity(value: Any, _: Field) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return f"must be a quantity such as 2, 500m or 4Gi, got {given(value)}"
    try:
        parse_quantity(value)
    except ValueError as error:
        return str(error)
    return None


def _time(value: Any, _: Field) -> str | None:
    if isinstance(value, str) and _TIME.fullmatch(value):
        return None
    return f"must be {_TIME_EXAMPLE}, got {given(value)}"


def _object(value: Any, _: Field) -> str | None:
    return None if isinstance(value, dict) else f"must be an object, got {given(value)}"


_CHECKS: Final[Mapping[str, Callable[[Any, Field], str | None]]] = {
    "string": _text,
    "boolean": _boolean,
    "int32": _integer,
    "int64": _integer,
    "int-or-string": _integer_or_text,
    "quantity": _quantity,
    "time": _time,
    "object": _object,
}
