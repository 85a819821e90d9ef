"""Folders of images, bases, wheels and logs, and atomic writes to them.

All but the logs is in the cache of `tfdist_cluster`, which all clones of this user share, and which may be deleted at
any time when nothing builds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tfdist_cluster import paths
from tfdist_cluster.content import remove

ROOT: Final = paths.REPOSITORY


def folder(name: str) -> Path:
    """Return a folder of the cache, made if it is missing; `name` may have several parts."""
    return paths.State.from_environment().cached(name)


def log(name: str) -> Path:
    """Return the file that a program's output goes to."""
    return paths.State.from_environment().logs / f"{name}.log"


@contextmanager
def complete_or_absent(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`, which becomes `path` when the body ends without an error.

    A file under the final name is therefore always complete. What an earlier, killed run left under the temporary
    name is removed first; callers hold the lock.
    """
    partial = path.with_name(f".{path.name}.partial")
    remove(partial)
    try:
        yield partial
        partial.replace(path)
    finally:
        remove(partial)
