"""The documents of files, folders and standard input, each knowing where its fields stand."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, NoReturn

from yaml.nodes import Node

from tfdist.cli import json_reader, location, yaml_reader
from tfdist.cli.errors import DocumentError, Position
from tfdist.cli.json_reader import Tree

STDIN: Final = "-"
SUFFIXES: Final = (".yaml", ".yml", ".json")
MAX_BYTES: Final = 64 << 20
"""Larger files are refused; the API server itself takes no object above 3 MiB."""


@dataclass(frozen=True, slots=True)
class Document:
    """One manifest: its JSON, the file it came from, and its number there, counted from 1."""

    value: dict[str, Any]
    source: str
    number: int
    tree: Tree
    prefix: str = ""
    """Where it lies in a `List`: `items[3].`."""

    def locate(self, path: str) -> Position:
        """Return where the field `path` stands, or the deepest part of the path that exists."""
        root = self.tree()
        return location.find(root, f"{self.prefix}{path}") if root else Position(1, 1)


def read_all(paths: Iterable[str], unreadable: Callable[[DocumentError], None]) -> Iterator[Document]:
    """Yield the documents of all files and folders; what cannot be read is told to `unreadable`, and passed over."""
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
    """Return the file, `-` for standard input, or every manifest in the folder and those below, in order of name.

    Raises:
        DocumentError: a folder that cannot be read, or without a manifest.
    """
    if path == STDIN or not Path(path).is_dir():
        return [path]
    found = []
    for folder, _, names in os.walk(path, onerror=_refuse):
        found += [str(Path(folder, name)) for name in names if name.endswith(SUFFIXES)]
    if not found:
        raise DocumentError(path, f"the folder holds no file that ends in {', '.join(SUFFIXES)}")
    return sorted(found)


def read(path: str) -> Iterator[Document]:
    """Yield the documents of a file, or of standard input for `-`.

    Raises:
        DocumentError: it cannot be read, or is neither YAML nor JSON; what comes before has been yielded.
    """
    source = "<stdin>" if path == STDIN else path
    return parse(_bytes(path, source), source)


def parse(content: bytes, source: str) -> Iterator[Document]:
    """Yield the documents that `content` holds; `source` names it in messages.

    Raises:
        DocumentError: as in `read`.
    """
    number = 0
    for value, tree in _values(_text(content, source), source):
        for item, prefix in _unfolded(value, ""):
            number += 1
            if not isinstance(item, dict):
                root = tree()
                position = location.find(root, prefix.rstrip(".")) if root else None
                raise DocumentError(source, _no_manifest(item), position)
            yield Document(item, source, number, tree, prefix)


def _values(text: str, source: str) -> Iterator[tuple[Any, Tree]]:
    strict = source.endswith(".json")
    if strict or text.lstrip()[:1] in {"{", "["}:
        try:
            yield from list(json_reader.read(text, source))
        except json_reader.NotJson as error:
            if strict:
                raise error.args[0] from None
        else:
            return
    for value, node in yaml_reader.read(text, source):
        yield value, partial(_itself, node)


def _itself(node: Node) -> Node:
    return node


def _unfolded(value: Any, prefix: str) -> Iterator[tuple[Any, str]]:
    """Yield the items of a `List`, as kubectl applies it, or the value itself, each with the prefix of its paths."""
    if isinstance(value, dict) and str(value.get("kind", "")).endswith("List") and isinstance(value.get("items"), list):
        for index, item in enumerate(value["items"]):
            yield from _unfolded(item, f"{prefix}items[{index}].")
    else:
        yield value, prefix


def _bytes(path: str, source: str) -> bytes:
    try:
        if path == STDIN:
            return _bounded(sys.stdin.buffer, source)
        with Path(path).open("rb") as file:
            return _bounded(file, source)
    except (OSError, ValueError) as error:
        _refuse(error, source)


def _bounded(file: IO[bytes], source: str) -> bytes:
    content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise DocumentError(source, f"larger than {MAX_BYTES >> 20} MiB: no file of manifests is")
    return content


def _refuse(error: OSError | ValueError, source: str | None = None) -> NoReturn:
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


def _no_manifest(value: Any) -> str:
    kind = "a list" if isinstance(value, list) else repr(value)
    return f"a manifest is a mapping with apiVersion and kind; this is {kind:.60}"
