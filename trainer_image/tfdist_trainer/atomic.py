"""Atomic replacement of files: written under a temporary name, flushed, then renamed."""

import errno
import os
from pathlib import Path
from typing import Final

from tfdist_trainer.errors import CheckpointUnwritableError, StorageError, TrainerError

TEMPORARY_PREFIX: Final = ".tmp-"

_UNWRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR})


def write_text(path: Path, text: str, *, tag: str) -> None:
    """Replace the content of `path` by `text`. `tag` distinguishes the temporary names of two writers.

    Raises:
        OSError: the file system failed; `storage_failure` converts it to a typed error.
    """
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{tag}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush the file or directory `path` to storage."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def storage_failure(error: OSError, directory: Path, field: str = "checkpoint.directory") -> TrainerError:
    """Return the typed error for `error`, raised while writing under `directory`, which a `field` of the job names."""
    text = f"{field}: cannot write {directory}: {error.strerror or error}"
    if error.errno in _UNWRITABLE:
        return CheckpointUnwritableError(f"{text}; is the volume mounted, and writable for user {os.getuid()}?")
    return StorageError(text)
