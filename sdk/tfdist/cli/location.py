"""Finds the position of a field in the nodes of a document."""

import re
from collections.abc import Iterator
from typing import Final

from yaml.nodes import MappingNode, Node, SequenceNode

from tfdist.cli.errors import Position
from tfdist.cli.yaml_loader import key_text

_INDEX: Final = re.compile(r"\.?\[(\d+)\]")
_AFTER_KEY: Final = ("", ".", "[")

Place = tuple[Node, Node, str]
"""The node of a key or an item, the node of its value, and the rest of a path."""


def find(root: Node, path: str) -> Position:
    """Return the position of the deepest key or list item of `path` that exists.

    The longest matching key wins: `limits.nvidia.com/gpu` finds the same key as `limits['nvidia.com/gpu']`.
    """
    mark = _deepest(root, path)[0].start_mark
    return Position(mark.line + 1, mark.column + 1)


def node_at(root: Node, path: str) -> Node | None:
    """Return the value at `path`, or None if it does not exist."""
    _, node, remaining = _deepest(root, path)
    return None if remaining else node


def _deepest(root: Node, path: str) -> Place:
    place = (root, root, path)
    while place[2] and (step := min(_steps(*place[1:]), key=lambda candidate: len(candidate[2]), default=None)):
        place = step
    return place


def _steps(node: Node, path: str) -> Iterator[Place]:
    """Yield the item or the keys of a node that `path` begins with."""
    if isinstance(node, SequenceNode):
        index = _INDEX.match(path)
        if index and int(index[1]) < len(node.value):
            item = node.value[int(index[1])]
            yield item, item, path[index.end() :]
    for key, value in node.value if isinstance(node, MappingNode) else ():
        text, bare = key_text(key), path.removeprefix(".")
        for form in (text, f"['{text}']", f'["{text}"]'):
            if bare.startswith(form) and bare[len(form) : len(form) + 1] in _AFTER_KEY:
                yield key, value, bare[len(form) :]
