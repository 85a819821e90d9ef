"""Finds texts in JSON values."""

from collections.abc import Iterator
from typing import Any

Location = tuple[str | int, ...]


def texts(value: Any, location: Location = ()) -> Iterator[tuple[Location, str]]:
    """Yield every string in a JSON value, also keys, with its location."""
    if isinstance(value, str):
        yield location, value
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from texts(item, (*location, i))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield (*location, key), str(key)
            yield from texts(item, (*location, key))


def value_at(value: Any, location: Location) -> Any:
    """Return the part of a JSON value at a location."""
    for part in location:
        value = value[part]
    return value
