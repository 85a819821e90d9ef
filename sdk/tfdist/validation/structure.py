"""Errors of a manifest that the models do not detect, whatever the resource: its depth, and null fields."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from tfdist import messages
from tfdist.validation.errors import FieldError
from tfdist.validation.model_errors import takes_object

MAX_DEPTH: Final = 64
"""Levels of objects and lists; an affinity, the deepest part of a pod, has twelve."""
_SHOWN_LEVELS: Final = 3

Location = tuple[Any, ...]


def too_deep(content: Mapping[Any, Any]) -> Iterator[FieldError]:
    """Yield the first field nested deeper than `MAX_DEPTH`: recursive validation must not exhaust the stack."""
    level: list[tuple[Location, Any]] = [((), content)]
    for _ in range(MAX_DEPTH):
        level = [((*at, key)[:_SHOWN_LEVELS], item) for at, value in level for key, item in _items(value)]
        level = [(at, item) for at, item in level if isinstance(item, dict | list)]
    for at, _ in level[:1]:
        yield FieldError(messages.join_path(at), f"nested deeper than {MAX_DEPTH} levels; reduce the nesting")


def nulls(value: Any, location: Location, model: type[BaseModel], allowed: Location) -> Iterator[FieldError]:
    """Yield an error for each null field: the API server drops it, and users often write `chief:` without a value.

    Args:
        value: an object or list at `location`.
        location: keys and indices from the root of the manifest.
        model: the model of the manifest.
        allowed: location of an object that may have nulls, such as the configuration of a program.
    """
    if location == allowed:
        return
    for key, item in _items(value):
        if item is None:
            yield FieldError(messages.join_path((*location, key)), _null((*location, key), model))
        elif isinstance(item, dict | list):
            yield from nulls(item, (*location, key), model, allowed)


def _null(location: Location, model: type[BaseModel]) -> str:
    remedy = "use {} for defaults" if takes_object(model, location) else "set a value"
    return f"must not be null; {remedy}, or remove the field"


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    return iter(value.items() if isinstance(value, Mapping) else enumerate(value))
