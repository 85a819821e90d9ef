"""Where in a file the field of a problem stands."""

import re
from collections.abc import Iterator
from typing import Final

from yaml.nodes import MappingNode, Node, SequenceNode

from tfdist.cli.errors import Position
from tfdist.cli.yaml_reader import is_merge, key_text

_INDEX: Final = re.compile(r"\.?\[(\d+)\]")
_AFTER_KEY: Final = ("", ".", "[")


def find(root: Node, path: str) -> Position:
    """Return the position of the deepest node on `path` that exists: of a key, or of an item of a list.

    Keys are compared as they stand in the document, longest first: `limits.nvidia.com/gpu` finds its key as
    `limits['nvidia.com/gpu']` does.
    """
    node, place, rest = root, root, path
    while rest and (step := _step(node, rest)):
        place, node, rest = step
    return Position(place.start_mark.line + 1, place.start_mark.column + 1)


def _step(node: Node, path: str) -> tuple[Node, Node, str] | None:
    """Return the node to point at, the node to go on from, and the rest of the path."""
    if isinstance(node, SequenceNode):
        index = _INDEX.match(path)
        if index is None or int(index[1]) >= len(node.value):
            return None
        item = node.value[int(index[1])]
        return item, item, path[index.end() :]
    if not isinstance(node, MappingNode):
        return None
    found = [(len(rest), key, value, rest) for key, value in _entries(node) for rest in _rests(key, path)]
    return min(found, key=lambda f: f[0])[1:] if found else None


def _entries(node: MappingNode) -> Iterator[tuple[Node, Node]]:
    """Yield the keys and values of a mapping, those that it merges from others last."""
    merges: list[Node] = []
    for key, value in node.value:
        if is_merge(key):
            merges += value.value if isinstance(value, SequenceNode) else [value]
        else:
            yield key, value
    for layer in merges:
        if isinstance(layer, MappingNode):
            yield from _entries(layer)


def _rests(node: Node, path: str) -> Iterator[str]:
    """Yield what is left of `path` behind a key, if the path begins with it."""
    key = key_text(node)
    if key is None:
        return
    bare = path.removeprefix(".")
    for form in (key, f"['{key}']", f'["{key}"]'):
        if bare.startswith(form) and bare[len(form) : len(form) + 1] in _AFTER_KEY:
            yield bare[len(form) :]
