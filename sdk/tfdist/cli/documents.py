"""Reads the documents of files, folders and standard input, with the positions of their fields."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NoReturn

from yaml.nodes import Node

from tfdist.cli import location, yaml_loader
from tfdist.cli.errors import DocumentError, Position

STDIN: Final = "-"
SUFFIXES: Final = (".yaml", ".yml", ".json")
MAX_BYTES: Final = 64 << 20
"""Larger files are rejected; the API server rejects objects above 3 MiB."""


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
        return location.find(self.root, f"{self.prefix}{path}") if self.root else Position(1, 1)

    def node(self, path: str) -> Node | None:
        """Return the YAML node of the field `path`, of the whole document for an empty path; None if it is absent."""
        return location.node_at(self.root, f"{self.prefix}{path}".removesuffix(".")) if self.root else None


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
                position = location.find(root, prefix.rstrip("."))
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
