"""Sets fields of a manifest by their paths, such as `training.config.epochs` and `env[0].value`."""

import copy
import itertools
import re
from collections.abc import Mapping
from typing import Any, Final

from tfdist import messages
from tfdist.client.errors import Invalid

Step = str | int
"""A key of an object, or an index of a list."""

_ROOTS: Final = ("metadata", "spec")
_STEP: Final = re.compile(
    r"""(?P<name>(?:^|\.)[^.\[\]'"]+) | \[(?P<index>[0-9]+)\] | \[(?P<quote>['"])(?P<key>.+?)(?P=quote)\]""", re.VERBOSE
)


def with_values(manifest: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a manifest with values at paths below `spec`, or with their full path below `metadata`.

    Objects on the way that do not exist are created; the index after the last one of a list extends it.

    Raises:
        Invalid: a path is malformed, or leads into a value that has no fields.
    """
    result: dict[str, Any] = copy.deepcopy(dict(manifest))
    for path, value in values.items():
        _set(result, steps(path), value, path)
    return result


def steps(path: str) -> tuple[Step, ...]:
    """Return the steps from the root of a manifest to a field.

    Raises:
        Invalid: the path is malformed.
    """
    result: list[Step] = []
    position = 0
    while match := _STEP.match(path, position):
        index = match["index"]
        result.append(int(index) if index else match["key"] or match["name"].removeprefix("."))
        position = match.end()
    if position < len(path) or not result:
        raise Invalid(f"{path}: malformed path; write it as in training.config.epochs, env[0].value or labels['a.b/c']")
    return (*(() if result[0] in _ROOTS else ("spec",)), *result)


def _set(root: dict[str, Any], path: tuple[Step, ...], value: Any, text: str) -> None:
    place: Any = root
    for number, (step, next_step) in enumerate(itertools.pairwise(path)):
        new: Any = [] if isinstance(next_step, int) else {}
        place = _child(place, step, new, text, path[:number])
    _child(place, path[-1], value, text, path[:-1], replace=True)


def _child(place: Any, step: Step, new: Any, text: str, parent: tuple[Step, ...], *, replace: bool = False) -> Any:
    """Return the value at a step of a list or object; `new` is stored there if it has none, or to replace it."""
    location = messages.join_path(parent)
    if isinstance(step, str) and not isinstance(place, dict):
        raise Invalid(f"{text}: {location} is {messages.format_value(place)}, and has no fields")
    if isinstance(step, int):
        if not isinstance(place, list):
            raise Invalid(f"{text}: {location} is {messages.format_value(place)}, and no list")
        if step > len(place):
            raise Invalid(
                f"{text}: {location} has {messages.count(len(place), 'item')}; the next index is {len(place)}"
            )
        if step == len(place):
            place.append(new)
    if replace or (isinstance(place, dict) and place.get(step) is None):
        place[step] = new
    return place[step]
