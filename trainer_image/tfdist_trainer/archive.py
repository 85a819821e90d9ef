"""Unpacks the archive of `training.source.archive`, which is not trusted: it may be damaged, hostile, or a bomb."""

import gzip
import tarfile
import zlib
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Final

from tfdist.contract import CODE_BYTES
from tfdist_trainer.errors import DataMalformedError, DataMissingError, StorageError, one_line

_FIELD: Final = "training.source.archive"
_PART: Final = 1 << 20
_MODE: Final = 0o755
_PACK_AGAIN: Final = "pack the folder again by `tfdist submit --code`"


def unpack(packed: Path, target: Path) -> None:
    """Write the files of the archive `packed`, a tar file compressed with gzip, to the directory `target`.

    Raises:
        DataMissingError: the file does not exist.
        DataMalformedError: it is damaged, too large when unpacked, or has a member other than a file, directory or
            link within `target`.
        StorageError: `target` cannot be written.
    """
    if not packed.is_file():
        raise DataMissingError(f"{_FIELD}: the ConfigMap has no key {packed.name}; {_PACK_AGAIN}")
    try:
        # Before anything is parsed: headers of a bomb may be as large as its content.
        _check_size(packed)
        with tarfile.open(packed, "r:gz") as archive:
            # All checks before the first file is written.
            members = archive.getmembers()
            links = {str(PurePosixPath(member.name)) for member in members if member.issym()}
            for member in members:
                _check(member, links)
                member.mode &= _MODE
            # files of the same size as their entries: a sparse file is larger
            _check_total(sum(member.size for member in members))
            # Python 3.11.3 and older have no filters, so `_check` has all rules.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(target, members)  # noqa: S202  `_check` has checked each member
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError) as error:
        reason = one_line(str(error))
        raise DataMalformedError(f"{_FIELD}: {packed.name} is damaged: {reason}; {_PACK_AGAIN}") from None
    except OSError as error:
        raise StorageError(f"{_FIELD}: cannot write {target}: {error.strerror or one_line(str(error))}") from None


def _check_size(packed: Path) -> None:
    """Read the archive once, without keeping it: a small file may expand to any size, also in its headers."""
    size = 0
    with gzip.open(packed) as content:
        while block := content.read(_PART):
            size += len(block)
            _check_total(size)


def _check_total(size: int) -> None:
    if size > CODE_BYTES:
        raise DataMalformedError(
            f"{_FIELD}: unpacked it is larger than {CODE_BYTES >> 20} MiB; use a Git repository, a claim or an image"
        )


def _check(member: tarfile.TarInfo, links: Collection[str]) -> None:
    """Raise an error for a member that a packed folder does not have, or that leads out of the folder.

    Args:
        member: of the archive.
        links: the symbolic links among all members. No member is below one, so a path is where it appears to be.
    """
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or any(str(parent) in links for parent in path.parents):
        raise DataMalformedError(f"{_FIELD}: {member.name!r} is not a path within the folder; {_PACK_AGAIN}")
    if member.issym() and _leads_out(path, PurePosixPath(member.linkname)):
        raise DataMalformedError(f"{_FIELD}: the link {member.name!r} leads out of the folder; {_PACK_AGAIN}")
    if not (member.isfile() or member.isdir() or member.issym()):
        raise DataMalformedError(f"{_FIELD}: {member.name!r} is neither a file nor a directory; {_PACK_AGAIN}")


def _leads_out(link: PurePosixPath, target: PurePosixPath) -> bool:
    """Return whether a link leads out of the folder, or may do so through another link, as `other/..` does."""
    up = next((number for number, part in enumerate(target.parts) if part != ".."), len(target.parts))
    return target.is_absolute() or ".." in target.parts[up:] or up >= len(link.parts)
