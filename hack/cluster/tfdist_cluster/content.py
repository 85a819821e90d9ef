"""Caching by content: an output is current exactly if the key stored next to it equals the hash of its inputs.

An output is written under a temporary name and renamed before its key is written, so a build that is killed leaves no
output with a current key. Entries of the user's cache have the key in their name.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from tfdist_cluster import lock

CACHE_KEY_LENGTH: Final = 16
IGNORED = frozenset({"__pycache__"})


def digest(*parts: object) -> str:
    """Hash values by their representation; the order counts."""
    return hashlib.sha256("\0".join(repr(part) for part in parts).encode()).hexdigest()


def files_digest(roots: Iterable[Path]) -> str:
    """Hash names and contents of files and of all files below folders, apart from Python's caches and Go's tests."""
    hasher = hashlib.sha256()
    for root in roots:
        files = sorted(root.rglob("*")) if root.is_dir() else [root]
        for file in files:
            if not file.is_file() or IGNORED & set(file.parts) or file.name.endswith("_test.go"):
                continue
            name = file.relative_to(root) if root.is_dir() else Path(file.name)
            hasher.update(f"{name}\0{file.stat().st_size}\0".encode())
            hasher.update(file.read_bytes())
    return hasher.hexdigest()


def file_digest(path: Path) -> str:
    """Hash one file without reading it into memory as a whole."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def key_file(output: Path) -> Path:
    """Return where the key of an output is stored."""
    return output.with_name(f".{output.name}.key")


def is_current(output: Path, key: str) -> bool:
    """Return whether the output exists, is complete, and was made from these inputs."""
    key_path = key_file(output)
    return output.exists() and key_path.is_file() and key_path.read_text().strip() == key


def publish(output: Path, key: str, make: Callable[[Path], None]) -> None:
    """Make an output under a temporary name, then rename it; does nothing if the output is current.

    Args:
        output: file or folder.
        key: hash of all inputs.
        make: gets the temporary path, which does not exist, and creates it.
    """
    if is_current(output, key):
        return
    key_file(output).unlink(missing_ok=True)
    temporary = output.with_name(f".{output.name}.partial")
    remove(temporary)
    make(temporary)
    remove(output)
    temporary.rename(output)
    write_atomically(key_file(output), key + "\n")


def cached(folder: Path, name: str, key: str, make: Callable[[Path], None], *, kept: int = 3) -> Path:
    """Return the file or folder of a cache that is made from the inputs with hash `key`, made if it is missing.

    An entry under its final name is complete and never changes, so processes that use one need no lock. Two that make
    the same one wait for each other.

    Args:
        folder: of the cache.
        name: what it is; entries of one name are versions of each other.
        key: hash of all inputs.
        make: gets a temporary path, which does not exist, and creates it.
        kept: how many versions stay, the last used ones.
    """
    path = folder / f"{name}-{key[:CACHE_KEY_LENGTH]}"
    if not path.exists():
        with lock.exclusive(folder / f".{name}.lock"):
            if not path.exists():
                temporary = folder / f".{path.name}.partial"
                remove(temporary)
                make(temporary)
                temporary.rename(path)
    os.utime(path)
    _remove_unused(folder, name, kept)
    return path


def _remove_unused(folder: Path, name: str, kept: int) -> None:
    """Remove all but the last used versions of an entry."""
    versions = folder.glob(f"{name}-{'[0-9a-f]' * CACHE_KEY_LENGTH}")
    for path in sorted(versions, key=lambda version: version.stat().st_mtime, reverse=True)[kept:]:
        remove(path)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Replace a file as a whole: readers see the old or the new text, never a part."""
    temporary = path.with_name(f".{path.name}.partial")
    temporary.write_text(text)
    temporary.rename(path)
