"""Refuses manifests that are nested deeper than anybody means, before a check that follows them runs out of stack."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tfdist.validation.problems import Problem
from tfdist.validation.wording import path_of

MAX_DEPTH: Final = 64
"""Levels of objects and lists; an affinity, the deepest part of a pod, has twelve."""
_SHOWN: Final = 3


def depth_problems(content: Mapping[Any, Any]) -> Iterator[Problem]:
    """Yield the first field that is nested too deep, at a path short enough to read."""
    level: list[tuple[tuple[Any, ...], Any]] = [((), content)]
    for _ in range(MAX_DEPTH):
        level = [((*at, key)[:_SHOWN], item) for at, value in level for key, item in _items(value)]
        level = [(at, item) for at, item in level if isinstance(item, dict | list)]
    for at, _ in level[:1]:
        yield Problem(path_of(at), f"nested deeper than {MAX_DEPTH} levels: make it flatter")


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    return iter(value.items() if isinstance(value, Mapping) else enumerate(value))
