"""Reads the documents of files, folders and standard input, with their kinds and the positions of their fields."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import IO, Any, Final, NoReturn

from yaml.nodes import MappingNode, Node, SequenceNode

from tfdist.api.resource import API_VERSION, GROUP, KIND
from tfdist.api.sweep_resource import SWEEP_API_VERSION, SWEEP_KIND
from tfdist.cli import yaml_loader
from tfdist.cli.errors import DocumentError, Position
from tfdist.cli.yaml_loader import key_text

STDIN: Final = "-"
SUFFIXES: Final = (".yaml", ".yml", ".json")
MAX_BYTES: Final = 64 << 20
"""Larger files are rejected; the API server rejects objects above 3 MiB."""

_INDEX: Final = re.compile(r"\.?\[(\d+)\]")
_AFTER_KEY: Final = ("", ".", "[")

Place = tuple[Node, Node, str]
"""The node of a key or an item, the node of its value, and the rest of a path."""

_KUBEFLOW: Final = "kubeflow.org/"


@dataclass(frozen=True, slots=True)
class Document:
    """One manifest: its value, its file, its number in the file counted from 1, and its root node in YAML."""

    value: dict[str, Any]
    source: str
    number: int = 1
    root: Node | None = None
    """None for a manifest that was not written in YAML, such as one made from options: it is at line 1."""
    prefix: str = ""
    """Path of the document in a `List`: `items[3].`."""

    def locate(self, path: str) -> Position:
        """Return the position of the field `path`, or of the deepest part of the path that exists."""
        return position_of(self.root, f"{self.prefix}{path}") if self.root else Position(1, 1)

    def node(self, path: str) -> Node | None:
        """Return the YAML node of the field `path`, of the whole document for an empty path; None if it is absent."""
        return node_at(self.root, f"{self.prefix}{path}".removesuffix(".")) if self.root else None


def read_all(paths: Iterable[str], unreadable: Callable[[DocumentError], None]) -> Iterator[Document]:
    """Yield the documents of all files and folders; errors are passed to `unreadable`, and reading continues."""
    for path in paths:
        try:
            for file in files(path):
                try:
                    yield from read(file)
                except DocumentError as error:
                    unreadable(error)
        except DocumentError as error:
            unreadable(error)


def files(path: str) -> list[str]:
    """Return the file, `-` for standard input, or all manifests of a folder, recursively and sorted by name.

    Raises:
        DocumentError: the folder cannot be read, or has no manifest.
    """
    if path == STDIN or not Path(path).is_dir():
        return [path]
    paths = []
    for folder, _, names in os.walk(path, onerror=_raise_unreadable):
        paths += [str(Path(folder, name)) for name in names if name.endswith(SUFFIXES)]
    if not paths:
        raise DocumentError(path, f"the folder has no file that ends in {', '.join(SUFFIXES)}")
    return sorted(paths)


def read(path: str) -> Iterator[Document]:
    """Yield the documents of a file, or of standard input for `-`.

    Raises:
        DocumentError: the file cannot be read, or is malformed; the documents before the error have been yielded.
    """
    source = "<stdin>" if path == STDIN else path
    return parse(_bytes(path, source), source)


def parse(content: bytes, source: str) -> Iterator[Document]:
    """Yield the documents of `content`; `source` is its name in messages.

    Raises:
        DocumentError: as in `read`.
    """
    number = 0
    for value, root in yaml_loader.load(_text(content, source), source):
        for item, prefix in _unfold(value, ""):
            number += 1
            if not isinstance(item, dict):
                position = position_of(root, prefix.rstrip("."))
                raise DocumentError(source, _not_a_manifest(item), position)
            yield Document(item, source, number, root, prefix)


def _unfold(value: Any, prefix: str) -> Iterator[tuple[Any, str]]:
    """Yield the items of a `List`, as kubectl applies it, or the value itself, each with the prefix of its paths."""
    if isinstance(value, dict) and str(value.get("kind", "")).endswith("List") and isinstance(value.get("items"), list):
        for index, item in enumerate(value["items"]):
            yield from _unfold(item, f"{prefix}items[{index}].")
    else:
        yield value, prefix


def _bytes(path: str, source: str) -> bytes:
    try:
        if path == STDIN:
            return _read_bounded(sys.stdin.buffer, source)
        with Path(path).open("rb") as file:
            return _read_bounded(file, source)
    except (OSError, ValueError) as error:
        _raise_unreadable(error, source)


def _read_bounded(file: IO[bytes], source: str) -> bytes:
    content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise DocumentError(source, f"larger than {MAX_BYTES >> 20} MiB")
    return content


def _raise_unreadable(error: OSError | ValueError, source: str | None = None) -> NoReturn:
    if isinstance(error, FileNotFoundError):
        raise DocumentError(source or error.filename, "no such file or folder") from None
    reason = error.strerror if isinstance(error, OSError) else error
    raise DocumentError(source or str(getattr(error, "filename", "")), f"cannot be read: {reason}") from None


def _text(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        kind = "UTF-16" if content[:2] in {b"\xff\xfe", b"\xfe\xff"} else f"byte 0x{content[error.start]:02x}"
        message = f"not UTF-8 ({kind}); save the file as UTF-8"
        raise DocumentError(source, message, Position(line, column)) from None


def _not_a_manifest(value: Any) -> str:
    kind = "a list" if isinstance(value, list) else repr(value)
    return f"a manifest is a mapping with apiVersion and kind; got {kind:.60}"


def position_of(root: Node, path: str) -> Position:
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


class DocumentKind(Enum):
    """Kind of a document."""

    JOB = auto()
    SWEEP = auto()
    TFJOB = auto()
    OTHER = auto()


_SERVED: Final = {
    KIND: (API_VERSION, DocumentKind.JOB),
    SWEEP_KIND: (SWEEP_API_VERSION, DocumentKind.SWEEP),
}
"""apiVersion of each kind of this project."""


class UnknownKind(ValueError):  # noqa: N818  reads well where it is caught
    """apiVersion or kind is missing or misspelled: path of the field, and the message with the remedy."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path, self.message = path, message


def classify(manifest: Mapping[str, Any]) -> DocumentKind:
    """Return the kind of `manifest`.

    Raises:
        UnknownKind: apiVersion or kind is missing, or misspelled so that no API server serves it.
    """
    api_version, kind = (_required_text(manifest, field) for field in ("apiVersion", "kind"))
    if api_version.startswith(_KUBEFLOW):
        return DocumentKind.TFJOB if kind == "TFJob" else DocumentKind.OTHER
    is_own_group = api_version.partition("/")[0] == GROUP
    meant = next((name for name in _SERVED if name.lower() == kind.lower()), None)
    if not is_own_group and meant is None:
        return DocumentKind.OTHER
    meant = meant or (SWEEP_KIND if api_version == SWEEP_API_VERSION else KIND)
    served_version, result = _SERVED[meant]
    if api_version != served_version:
        is_known = api_version in {version for version, _ in _SERVED.values()}
        fact = f"{api_version} has no kind {kind}" if is_known else f"unknown version {api_version!r}"
        raise UnknownKind("apiVersion", f"{fact}; write {served_version}")
    if kind != meant:
        raise UnknownKind("kind", f"{served_version} has no kind {kind!r}; write {meant}")
    return result


def _required_text(manifest: Mapping[str, Any], field: str) -> str:
    value = manifest.get(field)
    if value is None or value == "":
        raise UnknownKind(field, f"required value; a job has apiVersion: {API_VERSION} and kind: {KIND}")
    if not isinstance(value, str):
        raise UnknownKind(field, f"must be text; got {value!r:.60}")
    return value
