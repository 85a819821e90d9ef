"""Loads YAML and JSON with the semantics of kubectl: the values that it would send, and the position of every field.

Each document keeps the nodes of PyYAML's composer, which have line and column; `<<` is replaced by what it merges.
Unquoted scalars have the values of sigs.k8s.io/yaml, a variant of YAML 1.1: `22:30` and `2001-01-01` are text, `1e3` is
a number, `y` and `n` are booleans. With PyYAML's own constructor and resolver the command would check another manifest
than the one that kubectl applies. Input is untrusted: the depth is limited, because the C parser would overflow its
stack, and so is the size to which aliases expand.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tfdist.cli.errors import DocumentError, Position

MAX_DEPTH: Final = 100
_FREE_NODES: Final = 100_000
"""Number of nodes to which aliases may expand a document in addition to its own length."""

_TAG: Final = "tag:yaml.org,2002:"
_PLAIN: Final = "plain"
"""Tag of an unquoted scalar, which may be other than text."""
_TEXT: Final = f"{_TAG}str"
_MERGE: Final = f"{_TAG}merge"
_MAPPING: Final = f"{_TAG}map"
_SEQUENCE: Final = f"{_TAG}seq"
_AS_WRITTEN: Final = frozenset({_TEXT, _MERGE, f"{_TAG}timestamp"})
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    _PLAIN: (str, bool, int, float, type(None)),
    f"{_TAG}int": (int,),
    f"{_TAG}float": (int, float),
    f"{_TAG}bool": (bool,),
    f"{_TAG}null": (type(None),),
}

_JSON: Final = json.JSONDecoder(parse_int=str)
_SPACE: Final = re.compile(r"\s*")
_NOT_IN_YAML: Final = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\.|[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Surrogate pairs and characters of JSON that YAML does not have, and other escapes, which it has."""

Scalar = str | int | float | bool | None

_WORDS: Final[dict[str, Scalar]] = {
    **{form: True for word in ("y", "yes", "true", "on") for form in (word, word.capitalize(), word.upper())},
    **{form: False for word in ("n", "no", "false", "off") for form in (word, word.capitalize(), word.upper())},
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
SPECIAL_STARTS: Final = _NUMBER_STARTS | frozenset("yYnNtTfFoO~<")
"""First characters of all scalars that may be other than text."""
_NOT_FINITE: Final = re.compile(r"\.(nan|NaN|NAN)|[-+]?\.(inf|Inf|INF)")
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_BASES: Final = (16, 2, 8, 10)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LONGEST_NUMBER: Final = 400
"""Limit on the length of a number, in characters; JSON has no longer ones, and conversion takes quadratic time."""
_LARGEST_WHOLE: Final = 1e21
"""The API server returns smaller whole numbers without a fraction: 2.0 becomes 2."""


def load(text: str, source: str) -> Iterator[tuple[Any, Node]]:
    """Yield value and root node of each document that is not empty; `source` names the file in errors.

    Raises:
        DocumentError: malformed YAML, or a value that JSON does not have; with its position.
    """
    text = _as_yaml(text)
    try:
        loader = _Loader(text, source)
        while loader.check_node():
            node = loader.get_node()
            value = loader.document(node)
            if value is not None:
                yield value, node
    except yaml.MarkedYAMLError as error:
        raise _malformed(error, source) from None
    except yaml.YAMLError as error:
        raise _unreadable(error, text, source) from None


def key_text(node: Node) -> str:
    """Return a key as text, as in JSON.

    Raises:
        ValueError: it is a list or a mapping, null, NaN or infinity.
    """
    text = node.value if isinstance(node, ScalarNode) else ""
    value = text if node.tag == _TEXT else plain(text)
    if value is None:
        raise ValueError("null")
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_unquoted(node: Node) -> bool:
    """Return whether a scalar is a boolean, a number or null because it has no quotes and no tag."""
    return isinstance(node, ScalarNode) and node.tag == _PLAIN and not reads_as_text(node.value)


def _as_yaml(text: str) -> str:
    """Return a stream of JSON values as YAML documents with the same line numbers, and any other text unchanged.

    JSON is YAML, except that a stream needs document markers, and that YAML has no escapes of surrogate pairs and
    rejects some characters, which in JSON occur only in strings.
    """
    if text.lstrip()[:1] not in {"{", "["}:
        return text
    documents, end = [], 0
    try:
        while end < len(text):
            start, (_, end) = end, _JSON.raw_decode(text, _skip_space(text, end))
            end = _skip_space(text, end)
            documents.append(text[start:end].rstrip(" \t").removesuffix("\n"))
    except (ValueError, RecursionError):
        return text
    return _NOT_IN_YAML.sub(_escape, "\n--- ".join(documents))


def _skip_space(text: str, index: int) -> int:
    match = _SPACE.match(text, index)
    return match.end() if match else index


def _escape(match: re.Match[str]) -> str:
    if len(match[0]) == len(r"\n"):
        return match[0]
    code = ord(json.loads(f'"{match[0]}"'))
    return f"\\U{code:08x}"


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
    prefix = text.encode()[:offset].decode(errors="ignore") if isinstance(offset, int) else ""
    position = Position(prefix.count("\n") + 1, len(prefix) - prefix.rfind("\n"))
    return DocumentError(source, f"malformed YAML: {reason}", position)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Composes nodes, and builds the value of each document from them."""

    def __init__(self, text: str, source: str) -> None:
        super().__init__(text)
        self._source = source
        self._depth = self._left = 0

    def resolve(self, kind: type[Node], value: str | None, implicit: Any) -> str:
        """Return the tag of an untagged node."""
        if kind is ScalarNode:
            if not implicit[0] or (value and value[0] not in SPECIAL_STARTS):
                return _TEXT
            return _MERGE if value == "<<" else _PLAIN
        return _MAPPING if kind is MappingNode else _SEQUENCE

    def descend_resolver(self, parent: Node, index: Any) -> None:  # noqa: ARG002  the parser's signature
        """Reject a document that is nested too deeply."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._reject(parent, f"nested deeper than {MAX_DEPTH} levels; no Kubernetes object is")

    def ascend_resolver(self) -> None:
        """Leave a level."""
        self._depth -= 1

    def document(self, root: Node) -> Any:
        """Return the value of a document.

        Raises:
            DocumentError: JSON has no such value, or aliases expand to too many nodes.
        """
        # a node has at least one character of text, unless an alias repeats it; a few have none
        self._left = _FREE_NODES + 4 * (root.end_mark.index - root.start_mark.index)
        return self._value(root, 0)

    def _value(self, node: Node, depth: int) -> Any:
        self._count(node, depth)
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if isinstance(node, MappingNode) and node.tag == _MAPPING:
            return {key: self._value(value, depth + 1) for key, (_, value) in self._entries(node, depth).items()}
        if isinstance(node, SequenceNode) and node.tag == _SEQUENCE:
            return [self._value(item, depth + 1) for item in node.value]
        return self._reject_tag(node)

    def _count(self, node: Node, depth: int) -> None:
        self._left -= 1
        if self._left < 0:
            self._reject(node, "aliases expand to too many nodes; write the values out")
        if depth > MAX_DEPTH:
            self._reject(node, f"nested deeper than {MAX_DEPTH} levels; an alias may contain itself")

    def _scalar(self, node: ScalarNode) -> Scalar:
        if node.tag in _AS_WRITTEN:
            return str(node.value)
        if node.tag not in _TYPES:
            self._reject_tag(node)
        try:
            value = plain(node.value)
        except ValueError as error:
            self._reject(node, f"{error}; quote it if it is text")
        if type(value) not in _TYPES[node.tag]:
            self._reject(node, f"{node.value!r} is not of type {_short_tag(node.tag)}; remove the tag")
        return value

    def _entries(self, node: MappingNode, depth: int) -> dict[str, tuple[Node, Node]]:
        """Return key and value nodes by key, with `<<` replaced in the node, too; own keys and earlier layers win."""
        entries: dict[str, tuple[Node, Node]] = {}
        layers: list[Node] = []
        for key_node, value in node.value:
            if key_node.tag == _MERGE:
                layers += value.value if isinstance(value, SequenceNode) else [value]
                continue
            try:
                key = key_text(key_node)
            except ValueError:
                self._reject(key_node, "a key must be text or a number; quote it")
            if key in entries:
                line = entries[key][0].start_mark.line + 1
                self._reject(key_node, f"duplicate key {key!r}, first on line {line}")
            entries[key] = key_node, value
        for layer in layers:
            self._count(layer, depth + 1)
            if not isinstance(layer, MappingNode):
                self._reject(layer, "'<<' must be a mapping or a list of mappings")
            layer_entries = self._entries(layer, depth + 1)
            self._left -= len(layer_entries)
            entries |= {key: entry for key, entry in layer_entries.items() if key not in entries}
        node.value = [*entries.values()]
        return entries

    def _reject_tag(self, node: Node) -> NoReturn:
        self._reject(node, f"tag {_short_tag(node.tag)} has no meaning in a manifest; remove it")

    def _reject(self, node: Node, message: str) -> NoReturn:
        raise DocumentError(self._source, message, Position(node.start_mark.line + 1, node.start_mark.column + 1))


def _short_tag(tag: str) -> str:
    return f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag


def plain(text: str) -> Scalar:
    """Return the value of the unquoted scalar `text`.

    Raises:
        ValueError: NaN or infinity, which JSON does not have.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not a number in JSON")
    return _number(text)


def _number(text: str) -> Scalar:
    digits = text if text.startswith(".") else text.replace("_", "")
    if len(digits) > _LONGEST_NUMBER:
        return text
    if match := _INTEGER.fullmatch(digits):
        base, value = next((b, v) for b, v in zip(_BASES, match.groups()[1:], strict=True) if v is not None)
        return int(f"{match[1]}{value}", base)
    if _FLOAT.fullmatch(digits):
        value = float(digits)
        if math.isfinite(value):
            return int(value) if value.is_integer() and abs(value) < _LARGEST_WHOLE else value
    return text


def reads_as_text(text: str) -> bool:
    """Return whether the unquoted scalar `text` is text."""
    try:
        return isinstance(plain(text), str)
    except ValueError:
        return False
