"""Finds the position of a field in the nodes of a document."""

import re
from collections.abc import Iterator
from typing import Final

from yaml.nodes import MappingNode, Node, SequenceNode

from tfdist.cli.errors import Position
from tfdist.cli.yaml_loader import is_merge, key_text

_INDEX: Final = re.compile(r"\.?\[(\d+)\]")
_AFTER_KEY: Final = ("", ".", "[")


def find(root: Node, path: str) -> Position:
    """Return the position of the deepest key or list item of `path` that exists.

    The longest matching key wins: `limits.nvidia.com/gpu` finds the same key as `limits['nvidia.com/gpu']`.
    """
    node, place, rest = root, root, path
    while rest and (step := _step(node, rest)):
        place, node, rest = step
    return Position(place.start_mark.line + 1, place.start_mark.column + 1)


def node_at(root: Node, path: str) -> Node | None:
    """Return the value at `path`, or None if it does not exist."""
    node, rest = root, path
    while rest:
        step = _step(node, rest)
        if step is None:
            return None
        _, node, rest = step
    return node


def _step(node: Node, path: str) -> tuple[Node, Node, str] | None:
    """Return the node to report, the node to continue from, and the rest of the path."""
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
    """Yield the keys and values of a mapping, merged ones last."""
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
    """Yield the rest of `path` after a key, if the path begins with it."""
    key = key_text(node)
    if key is None:
        return
    bare = path.removeprefix(".")
    for form in (key, f"['{key}']", f'["{key}"]'):
        if bare.startswith(form) and bare[len(form) : len(form) + 1] in _AFTER_KEY:
            yield bare[len(form) :]
