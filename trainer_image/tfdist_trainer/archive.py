"""Unpacks the archive of `training.source.archive`, which is not trusted: it may be damaged, hostile, or a bomb."""

import gzip
import tarfile
import zlib
from pathlib import Path
from typing import Final

from tfdist.contract import CODE_BYTES
from tfdist_trainer.errors import DataMalformedError, DataMissingError, StorageError, one_line

_FIELD: Final = "training.source.archive"
_PART: Final = 1 << 20
_PACK_AGAIN: Final = "pack the folder again by `tfdist submit --code`"


def unpack(packed: Path, target: Path) -> None:
    """Write the files of the archive `packed`, a tar file compressed with gzip, to the directory `target`.

    Raises:
        DataMissingError: there is no such file.
        DataMalformedError: it is damaged, too large when unpacked, or has a member other than a file, directory or
            link within `target`.
        StorageError: `target` cannot be written.
    """
    if not packed.is_file():
        raise DataMissingError(f"{_FIELD}: the ConfigMap has no key {packed.name}; {_PACK_AGAIN}")
    try:
        _check_size(packed)
        with tarfile.open(packed, "r:gz") as archive:
            members = archive.getmembers()
            for member in members:
                _check(member)
            # files of the same size as their entries: a sparse file is larger
            _check_total(sum(member.size for member in members))
            archive.extractall(target, members, filter="data")
    except tarfile.FilterError as error:
        raise DataMalformedError(
            f"{_FIELD}: {one_line(str(error))}; nothing outside of the folder is written"
        ) from None
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError) as error:
        reason = one_line(str(error))
        raise DataMalformedError(f"{_FIELD}: {packed.name} is damaged: {reason}; {_PACK_AGAIN}") from None
    except OSError as error:
        raise StorageError(f"{_FIELD}: cannot write {target}: {error.strerror or one_line(str(error))}") from None


def _check_size(packed: Path) -> None:
    """Read the archive once, without keeping it: a small file may expand to any size, also in its headers."""
    size = 0
    with gzip.open(packed) as content:
        while part := content.read(_PART):
            size += len(part)
            _check_total(size)


def _check_total(size: int) -> None:
    if size > CODE_BYTES:
        raise DataMalformedError(
            f"{_FIELD}: unpacked it is larger than {CODE_BYTES >> 20} MiB; use a Git repository, a claim or an image"
        )


def _check(member: tarfile.TarInfo) -> None:
    """Raise an error for what a packed folder does not have; `filter="data"` would change an absolute path."""
    parts = Path(member.name).parts
    if member.name.startswith("/") or ".." in parts:
        raise DataMalformedError(f"{_FIELD}: {member.name!r} is not a path within the folder; {_PACK_AGAIN}")
    if not (member.isfile() or member.isdir() or member.issym()):
        raise DataMalformedError(f"{_FIELD}: {member.name!r} is neither a file nor a directory; {_PACK_AGAIN}")
