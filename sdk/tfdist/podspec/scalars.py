"""Validates the primitive types of a pod template: strings, numbers, quantities, times."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from tfdist import messages
from tfdist.podspec.quantity import parse_quantity
from tfdist.podspec.schema import Field

_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})")


def scalar_error(value: Any, field: Field) -> str | None:
    """Return the error of `value` as a value of the primitive type of `field`, or None."""
    return _CHECKS[field.type](value, field)


def _string(value: Any, field: Field) -> str | None:
    if field.enum:
        # Kubernetes treats an empty string as absent, and templating tools write it.
        is_valid = isinstance(value, str) and (not value or value in field.enum)
        return None if is_valid else messages.unsupported(value, filter(None, field.enum))
    if isinstance(value, str):
        return None
    advice = "; quote it" if isinstance(value, bool | int | float) else ""
    return messages.invalid(value, f"must be a string{advice}")


def _boolean(value: Any, _: Field) -> str | None:
    return None if isinstance(value, bool) else messages.invalid(value, "must be true or false, without quotes")


def _integer(value: Any, field: Field) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return messages.invalid(value, "must be an integer")
    bits = 64 if field.type == "int64" else 32
    fits = -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)
    return None if fits else messages.invalid(value, f"must fit into {bits} bits")


def _integer_or_string(value: Any, field: Field) -> str | None:
    if isinstance(value, str):
        return None
    text = _integer(value, field)
    return text and text.replace("an integer", "an integer or a string")


def _quantity(value: Any, _: Field) -> str | None:
    try:
        parse_quantity(value)
    except ValueError as error:
        return str(error)
    return None


def _time(value: Any, _: Field) -> str | None:
    if isinstance(value, str) and _TIME.fullmatch(value):
        return None
    return messages.invalid(value, "must be an RFC 3339 time, such as 2030-01-01T00:00:00Z")


def _object(value: Any, _: Field) -> str | None:
    return None if isinstance(value, dict) else messages.invalid(value, "must be an object")


_CHECKS: Final[Mapping[str, Callable[[Any, Field], str | None]]] = {
    "string": _string,
    "boolean": _boolean,
    "int32": _integer,
    "int64": _integer,
    "int-or-string": _integer_or_string,
    "quantity": _quantity,
    "time": _time,
    "object": _object,
}
