"""Atomic replacement of files: written under a temporary name, flushed, then renamed; and typed errors of files."""

import errno
import os
from pathlib import Path
from typing import Final

from tfdist_trainer.errors import CheckpointUnwritableError, DataMissingError, StorageError, TrainerError

TEMPORARY_PREFIX: Final = ".tmp-"

_UNWRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR})
_NOT_FOR_US: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ELOOP})
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

ABSENT: Final = (FileNotFoundError, NotADirectoryError)
"""Errors of a file system for a file that does not exist. Every other error leaves open whether it exists."""


def write_text(path: Path, text: str, *, tag: str) -> None:
    """Replace the content of `path` by `text`. `tag` distinguishes the temporary names of two writers.

    Raises:
        OSError: the file system failed; `storage_failure` converts it to a typed error.
    """
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{tag}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        # Before the rename: after a crash the name must not stand for an empty file.
        os.fsync(file.fileno())
    temporary.rename(path)
    # The rename itself is in the directory.
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
    text = f"{field}: cannot write {directory}: {_describe(error)}"
    if error.errno in _UNWRITABLE:
        return CheckpointUnwritableError(f"{text}; is the volume mounted, and writable for user {os.getuid()}?")
    if error.errno in _FULL:
        return StorageError(f"{text}; enlarge the volume, or remove what is not needed there")
    return StorageError(f"{text}; check the volume and its server")


def read_failure(error: OSError, path: Path) -> StorageError:
    """Return the typed error for `error`, raised while reading the file or listing the directory `path`."""
    remedy = "the storage has failed, the files may be whole; check the volume and its server"
    if error.errno in {errno.EACCES, errno.EPERM}:
        remedy = f"let user {os.getuid()} read it (runAsUser or fsGroup of the pod)"
    return StorageError(f"{path}: cannot be read: {_describe(error)}; {remedy}")


def input_failure(error: OSError, text: str) -> TrainerError:
    """Return the typed error for `error`, raised while reading input data; `text` has the place and what was read.

    Absent, and readable for others only, is the fault of the job; any other error leaves open whether there is data.
    """
    if error.errno in _NOT_FOR_US:
        return DataMissingError(f"{text}: {error.strerror}")
    return StorageError(f"{text}: {_describe(error)}; the files may be whole: check the volume and its server")


def reject_storage_error(error: BaseException, text: str) -> None:
    """Raise the typed error for one of the file system, raised while decoding; one of the content has no number.

    Args:
        error: raised by a decoder, such as gzip's, which raises an `OSError` for damage too.
        text: the file.

    Raises:
        DataMissingError, StorageError: see `input_failure`.
    """
    if isinstance(error, OSError) and error.errno is not None:
        raise input_failure(error, f"{text}: cannot be read") from None


def _describe(error: OSError) -> str:
    code = errno.errorcode.get(error.errno or 0)
    return f"{error.strerror or error}{f' ({code})' if code else ''}"
