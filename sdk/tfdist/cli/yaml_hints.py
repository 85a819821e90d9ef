"""Hints about unquoted YAML: text such as `y`, `no` and `010` that kubectl reads as a boolean or a number."""

from collections.abc import Iterator

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tfdist import messages
from tfdist.cli import scalars
from tfdist.cli.documents import Document
from tfdist.cli.yaml_loader import is_unquoted, key_text


def as_written(document: Document, path: str, message: str) -> str:
    """Return the error `message` about the field `path` with the scalar as written, if a string has to be quoted."""
    _, marker, advice = message.partition(messages.MUST_BE_STRING)
    node = document.node(path) if marker else None
    if not isinstance(node, ScalarNode) or not is_unquoted(node) or not node.value:
        return message
    return f"{node.value} is {_kind(node.value)} in YAML; write {messages.format_value(node.value)}{advice}"


def converted_keys(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the path and a warning for each key that kubectl reads as other text than written."""
    pending: list[tuple[tuple[str | int, ...], Node | None]] = [((), document.node(""))]
    visited: set[int] = set()
    while pending:
        location, node = pending.pop()
        if id(node) in visited:  # an alias
            continue
        visited.add(id(node))
        if isinstance(node, SequenceNode):
            pending += [((*location, index), item) for index, item in enumerate(node.value)]
        elif isinstance(node, MappingNode):
            for key, value in node.value:
                text = key_text(key)
                place = (*location, text)
                pending.append((place, value))
                if is_unquoted(key) and text != key.value and id(key) not in visited:
                    visited.add(id(key))  # a mapping that another merges
                    advice = f'kubectl reads it as "{text}"; write {messages.format_value(key.value)}'
                    yield messages.join_path(place), f"the key {key.value} is {_kind(key.value)} in YAML, {advice}"


def _kind(text: str) -> str:
    value = scalars.plain(text)
    return "null" if value is None else "a boolean" if isinstance(value, bool) else "a number"
