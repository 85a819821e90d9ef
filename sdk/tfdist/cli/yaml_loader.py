"""Loads YAML and JSON with the semantics of kubectl: the values that it would send, and the position of every field.

Each document keeps the nodes of PyYAML's composer, which have line and column. PyYAML's own constructor and resolver
are not used, because they follow other rules: see `scalars`. Input is untrusted: the depth is limited, because the C
parser would overflow its stack, and so is the size to which aliases expand.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tfdist.cli import scalars
from tfdist.cli.errors import DocumentError, Position

MAX_DEPTH: Final = 100
_FREE_NODES: Final = 100_000
"""Number of nodes to which aliases may expand a document in addition to its own length."""

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

_JSON: Final = json.JSONDecoder(parse_int=str)
_SPACE: Final = re.compile(r"\s*")
_SURROGATE_PAIR: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB]..)\\u([dD][c-fC-F]..)")
_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class _Resolver:
    """Resolver of a loader: tags of untagged nodes, and the limit on depth."""

    depth = 0

    def resolve(self, kind: type[Node], value: str | None, implicit: Any) -> str:
        """Return the tag of an untagged node; an unquoted scalar that may be other than text gets a tag of its own."""
        if kind is ScalarNode:
            return _PLAIN if implicit[0] and (not value or value[0] in scalars.SPECIAL_STARTS) else _TEXT
        return _MAPPING if kind is MappingNode else _SEQUENCE

    def descend_resolver(self, parent: Node | None, index: Any) -> None:  # noqa: ARG002  the parser's signature
        """Reject a document that is nested too deeply."""
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
        """Parser in Python, ten times slower."""

        def __init__(self, text: str) -> None:
            Reader.__init__(self, text)
            Scanner.__init__(self)
            Parser.__init__(self)
            Composer.__init__(self)


def load(text: str, source: str) -> Iterator[tuple[Any, Node]]:
    """Yield value and root node of each document that is not empty; `source` names the file in errors.

    Raises:
        DocumentError: malformed YAML, or a value that JSON does not have; with its position.
    """
    for node in _compose(_as_yaml(text), source):
        if not (isinstance(node, ScalarNode) and node.tag == _PLAIN and scalars.plain(node.value) is None):
            yield _Builder(node, source).value(node, 0), node


def _as_yaml(text: str) -> str:
    """Return a stream of JSON values as YAML documents with the same line numbers, and any other text unchanged.

    JSON is YAML, except that a stream needs document markers, and that YAML has no escapes of surrogate pairs and
    rejects some characters, which in JSON occur only in strings.
    """
    if text.lstrip()[:1] not in {"{", "["}:
        return text
    documents, index = [], 0
    try:
        while index < len(text):
            _, end = _JSON.raw_decode(text, _skip_space(text, index))
            end = _skip_space(text, end)
            documents.append(text[index:end].rstrip(" \t"))
            index = end
    except (ValueError, RecursionError):
        return text
    stream = "\n--- ".join(each.removesuffix("\n") for each in documents)
    stream = _SURROGATE_PAIR.sub(_combined, stream)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", stream)


def _skip_space(text: str, index: int) -> int:
    found = _SPACE.match(text, index)
    return found.end() if found else index


def _combined(pair: re.Match[str]) -> str:
    high, low = int(pair[2], 16), int(pair[3], 16)
    return f"{pair[1]}\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"


def _compose(text: str, source: str) -> Iterator[Node]:
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield node
    except yaml.MarkedYAMLError as error:
        raise _malformed(error, source) from None
    except yaml.YAMLError as error:
        raise _unreadable(error, text, source) from None
    except _TooDeep as error:
        _reject(error.args[0], source, f"nested deeper than {MAX_DEPTH} levels; no Kubernetes object is")


def _malformed(error: yaml.MarkedYAMLError, source: str) -> DocumentError:
    """Return PyYAML's error with its position and, for what spans lines, such as a quote, the line of its start."""
    mark, start = error.problem_mark or error.context_mark, error.context_mark
    context = f" {error.context}" if error.context and error.problem else ""
    if context and start and mark and start.line != mark.line:
        context += f" that starts on line {start.line + 1}"
    position = Position(mark.line + 1, mark.column + 1) if mark else None
    return DocumentError(source, f"malformed YAML: {error.problem or error.context}{context}", position)


def _unreadable(error: yaml.YAMLError, text: str, source: str) -> DocumentError:
    """Return the error for a character that YAML forbids; PyYAML reports its offset in bytes."""
    offset, reason = getattr(error, "position", None), getattr(error, "reason", error)
    before = text.encode()[:offset].decode(errors="ignore") if isinstance(offset, int) else ""
    position = Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
    return DocumentError(source, f"malformed YAML: {reason}", position)


def _reject(node: Node, source: str, message: str) -> NoReturn:
    mark = node.start_mark
    raise DocumentError(source, message, Position(mark.line + 1, mark.column + 1))


class _Builder:
    """Builds the value of one document from its nodes."""

    def __init__(self, root: Node, source: str) -> None:
        self._source = source
        # a node has at least one character of text, unless an alias repeats it; a few have none
        self._left = _FREE_NODES + 4 * (root.end_mark.index - root.start_mark.index)

    def value(self, node: Node, depth: int) -> Any:
        """Return the value of `node`, which is `depth` levels below the root.

        Raises:
            DocumentError: JSON has no such value, or aliases expand to too many nodes.
        """
        self._left -= 1
        if self._left < 0:
            self._reject(node, "aliases expand to too many nodes; write the values out")
        if node.tag == _TEXT and isinstance(node, ScalarNode):
            return node.value
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if depth > MAX_DEPTH:
            self._reject(node, f"nested deeper than {MAX_DEPTH} levels; an alias may contain itself")
        if node.tag == _MAPPING and isinstance(node, MappingNode):
            return self._mapping(node, depth + 1)
        if node.tag != _SEQUENCE:
            self._reject(node, f"tag {_short_tag(node.tag)} has no meaning in a manifest; remove it")
        return [self.value(item, depth + 1) for item in node.value]

    def _scalar(self, node: ScalarNode) -> scalars.Scalar:
        if node.tag == f"{_TAG}timestamp":
            return str(node.value)
        if node.tag != _PLAIN and node.tag not in _TYPES:
            self._reject(node, f"tag {_short_tag(node.tag)} has no meaning in a manifest; remove it")
        try:
            value = scalars.plain(node.value)
        except ValueError as error:
            self._reject(node, f"{error}; quote it if it is text")
        if node.tag != _PLAIN and type(value) not in _TYPES[node.tag]:
            self._reject(node, f"{node.value!r} is not of type {_short_tag(node.tag)}; remove the tag")
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
                self._duplicate(node, key_node, key)
            result[key] = self.value(value_node, depth)
        for merged in merges:
            self._merge(result, merged, depth)
        return result

    def _key(self, node: Node) -> str:
        key = key_text(node)
        if key is None:
            self._reject(node, "a key must be text or a number; quote it")
        return key

    def _duplicate(self, node: MappingNode, again: Node, key: str) -> NoReturn:
        first = next(k for k, _ in node.value if not is_merge(k) and key_text(k) == key)
        line = first.start_mark.line + 1
        self._reject(again, f"duplicate key {key!r}, first on line {line}")

    def _merge(self, result: dict[str, Any], node: Node, depth: int) -> None:
        layers = node.value if isinstance(node, SequenceNode) else [node]
        for layer in layers:
            if not isinstance(layer, MappingNode):
                self._reject(layer, "'<<' must be a mapping or a list of mappings")
            # the mapping's own keys override merged ones, and earlier layers override later ones
            for key, value in self.value(layer, depth).items():
                result.setdefault(key, value)

    def _reject(self, node: Node, message: str) -> NoReturn:
        _reject(node, self._source, message)


def is_merge(node: Node) -> bool:
    """Return whether a key is `<<`, which merges another mapping."""
    return node.tag == f"{_TAG}merge" or (node.tag == _PLAIN and node.value == "<<")


def is_unquoted(node: Node) -> bool:
    """Return whether a scalar is a boolean, a number or null because it has no quotes and no tag."""
    return isinstance(node, ScalarNode) and node.tag == _PLAIN and not scalars.reads_as_text(node.value)


def key_text(node: Node) -> str | None:
    """Return a key as text, as in JSON, or None for a node that cannot be a key."""
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
