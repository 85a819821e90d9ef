"""YAML text as the JSON that kubectl would send, refusing what kubectl refuses.

The tree of nodes that the parser makes is kept with each document, because it knows line and column of everything.
Input is not trusted: nesting is bounded, as the parser in C would overflow its stack, and so is what aliases expand to.
"""

from collections.abc import Iterator
from typing import Any, Final, NoReturn

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tfdist.cli import scalars, yaml_problems
from tfdist.cli.errors import DocumentError, Position

MAX_DEPTH: Final = 100
_FREE_NODES: Final = 100_000
"""What a document may expand to by aliases beyond its own length."""

_TAG: Final = "tag:yaml.org,2002:"
_PLAIN: Final = "plain"
_TEXT: Final = f"{_TAG}str"
_MAPPING: Final = f"{_TAG}map"
_SEQUENCE: Final = f"{_TAG}seq"
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    f"{_TAG}int": (int,),
    f"{_TAG}float": (int, float),
    f"{_TAG}bool": (bool,),
    f"{_TAG}null": (type(None),),
}


class _Resolver:
    """The part of a loader that the parser asks for tags; it also sees every level of nesting."""

    depth = 0

    def resolve(self, kind: type[Node], value: str | None, implicit: Any) -> str:
        """Return the tag of a node that has none: whether a scalar without quotes may be other than text."""
        if kind is ScalarNode:
            return _PLAIN if implicit[0] and (not value or value[0] in scalars.SPECIAL_STARTS) else _TEXT
        return _MAPPING if kind is MappingNode else _SEQUENCE

    def descend_resolver(self, parent: Node | None, index: Any) -> None:  # noqa: ARG002  the parser's signature
        """Refuse a document that nests too deep."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _TooDeep(parent)

    def ascend_resolver(self) -> None:
        """Leave a level."""
        self.depth -= 1


class _TooDeep(Exception):  # noqa: N818  never leaves this module
    """Nesting beyond the bound, in this node."""


if yaml.__with_libyaml__:
    from yaml._yaml import CParser

    class _Loader(_Resolver, CParser):
        """Parser in C."""
else:
    from yaml.composer import Composer
    from yaml.parser import Parser
    from yaml.reader import Reader
    from yaml.scanner import Scanner

    class _Loader(_Resolver, Reader, Scanner, Parser, Composer):  # type: ignore[no-redef]
        """Parser in Python, an order of magnitude slower."""

        def __init__(self, text: str) -> None:
            Reader.__init__(self, text)
            Scanner.__init__(self)
            Parser.__init__(self)
            Composer.__init__(self)


def read(text: str, source: str) -> Iterator[tuple[Any, Node]]:
    """Yield the JSON of each document that is not empty, with its tree; `source` is named in errors.

    Raises:
        DocumentError: with line, column, and what is wrong there.
    """
    for node in compose(text, source):
        if not (isinstance(node, ScalarNode) and node.tag == _PLAIN and scalars.plain(node.value) is None):
            yield _Builder(node, source).value(node, 0), node


def compose(text: str, source: str) -> Iterator[Node]:
    """Yield the tree of each document.

    Raises:
        DocumentError: where the text is no YAML.
    """
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield node
    except yaml.YAMLError as error:
        raise yaml_problems.in_words(error, text, source) from None
    except _TooDeep as error:
        refuse(error.args[0], source, f"nests deeper than {MAX_DEPTH} levels; no Kubernetes object does")


def refuse(node: Node, source: str, message: str) -> NoReturn:
    """Raise the error that `message` is wrong at `node`."""
    mark = node.start_mark
    raise DocumentError(source, message, Position(mark.line + 1, mark.column + 1))


class _Builder:
    """Makes the JSON of one document."""

    def __init__(self, root: Node, source: str) -> None:
        self._source = source
        # a node takes a character or more of the text, unless an alias repeats it; a few take none
        self._left = _FREE_NODES + 4 * (root.end_mark.index - root.start_mark.index)

    def value(self, node: Node, depth: int) -> Any:
        """Return the JSON of `node`, which is `depth` levels down.

        Raises:
            DocumentError: it has no JSON, or far too much.
        """
        self._left -= 1
        if self._left < 0:
            self._refuse(node, "aliases expand to far more than is written; write out what is meant")
        if node.tag == _TEXT and isinstance(node, ScalarNode):
            return node.value
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if depth > MAX_DEPTH:
            self._refuse(node, f"nests deeper than {MAX_DEPTH} levels; an alias may contain itself")
        if node.tag == _MAPPING and isinstance(node, MappingNode):
            return self._mapping(node, depth + 1)
        if node.tag != _SEQUENCE:
            self._refuse(node, f"tag {_short_tag(node.tag)} says nothing in a manifest; remove it")
        return [self.value(item, depth + 1) for item in node.value]

    def _scalar(self, node: ScalarNode) -> scalars.Scalar:
        if node.tag == f"{_TAG}timestamp":
            return str(node.value)
        if node.tag != _PLAIN and node.tag not in _TYPES:
            self._refuse(node, f"tag {_short_tag(node.tag)} says nothing in a manifest; remove it")
        try:
            value = scalars.plain(node.value)
        except ValueError as error:
            self._refuse(node, f"{error}; put it in quotes if text is meant")
        if node.tag != _PLAIN and type(value) not in _TYPES[node.tag]:
            self._refuse(node, f"{node.value!r} is no {_short_tag(node.tag)}; remove the tag, or change the value")
        return value

    def _mapping(self, node: MappingNode, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merges = []
        for key_node, value_node in node.value:
            if is_merge(key_node):
                merges.append(value_node)
                continue
            key = key_node.value if key_node.tag == _TEXT else self._key(key_node)
            if key in result:
                self._twice(node, key_node, key)
            result[key] = self.value(value_node, depth)
        for merged in merges:
            self._merge(result, merged, depth)
        return result

    def _key(self, node: Node) -> str:
        key = key_text(node)
        if key is None:
            self._refuse(node, "a key must be a word or a number; put it in quotes")
        return key

    def _twice(self, node: MappingNode, again: Node, key: str) -> NoReturn:
        first = next(k for k, _ in node.value if not is_merge(k) and key_text(k) == key)
        line = first.start_mark.line + 1
        self._refuse(again, f"key {key!r} is given twice, first on line {line}; one of the two would be lost")

    def _merge(self, result: dict[str, Any], node: Node, depth: int) -> None:
        layers = node.value if isinstance(node, SequenceNode) else [node]
        for layer in layers:
            if not isinstance(layer, MappingNode):
                self._refuse(layer, "'<<' merges a mapping, or a list of mappings; this is neither")
            # what is written in the mapping itself goes before what is merged, and earlier layers before later
            for key, value in self.value(layer, depth).items():
                result.setdefault(key, value)

    def _refuse(self, node: Node, message: str) -> NoReturn:
        refuse(node, self._source, message)


def is_merge(node: Node) -> bool:
    """Return whether a key is `<<`, which stands for the keys of another mapping."""
    return node.tag == f"{_TAG}merge" or (node.tag == _PLAIN and node.value == "<<")


def key_text(node: Node) -> str | None:
    """Return a key as JSON has it, or None for what cannot be one."""
    if not isinstance(node, ScalarNode):
        return None
    if node.tag == _TEXT:
        return str(node.value)
    try:
        value = scalars.plain(node.value)
    except ValueError:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def _short_tag(tag: str) -> str:
    return f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag
