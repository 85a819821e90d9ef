"""Unpacks a folder of code, which is not trusted: the archive may be damaged, hostile, or a bomb."""

import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Final

from tfdist.contract import CODE_FILES
from tfdist_trainer.errors import DataMalformedError, StorageError, one_line

_PART: Final = 1 << 20
_MODE: Final = 0o755
PACK_AGAIN: Final = "pack the folder again by `tfdist submit --code`"


@dataclass(frozen=True, slots=True)
class Packed:
    """An archive: a tar file compressed with gzip."""

    content: IO[bytes]
    name: str
    """For messages: of its file or object."""
    field: str
    """The field of the job that names it."""
    limit: int
    """Bytes that it may have when it is unpacked."""


def check_hash(packed: Packed, sha256: str) -> None:
    """Raise an error for an archive with another hash.

    Raises:
        DataMalformedError: the hash differs.
    """
    packed.content.seek(0)
    digest = hashlib.sha256()
    while block := packed.content.read(_PART):
        digest.update(block)
    found = digest.hexdigest()
    if found != sha256:
        raise DataMalformedError(
            f"{packed.field}: {packed.name} has the SHA-256 {found}, and {packed.field}.sha256 is {sha256}: it was "
            f"replaced or cut; {PACK_AGAIN}"
        )


def unpack(packed: Packed, target: Path) -> None:
    """Write the files of an archive to the directory `target`.

    Raises:
        DataMalformedError: the archive is damaged, too large when unpacked, or has a member other than a file,
            directory or link within `target`.
        StorageError: `target` cannot be written.
    """
    try:
        # Before anything is parsed: headers of a bomb may be as large as its content.
        _check_size(packed)
        packed.content.seek(0)
        with tarfile.open(fileobj=packed.content, mode="r:gz") as archive:
            # All checks before the first file is written.
            members = list(islice(archive, CODE_FILES + 1))
            if len(members) > CODE_FILES:
                raise DataMalformedError(
                    f"{packed.field}: {packed.name} has more than {CODE_FILES} files; {PACK_AGAIN}"
                )
            links = {str(PurePosixPath(member.name)) for member in members if member.issym()}
            for member in members:
                _check(member, links, packed.field)
                member.mode &= _MODE
            # files of the same size as their entries: a sparse file is larger
            _check_total(sum(member.size for member in members), packed)
            # Python 3.11.3 and older have no filters, so `_check` has all rules.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(target, members)  # noqa: S202  `_check` has checked each member
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError) as error:
        reason = one_line(str(error))
        raise DataMalformedError(f"{packed.field}: {packed.name} is damaged: {reason}; {PACK_AGAIN}") from None
    except OSError as error:
        raise StorageError(f"{packed.field}: cannot write {target}: {error.strerror or one_line(str(error))}") from None


def _check_size(packed: Packed) -> None:
    """Read the archive once, without keeping it: a small file may expand to any size, also in its headers."""
    size = 0
    packed.content.seek(0)
    with gzip.open(packed.content) as content:
        while block := content.read(_PART):
            size += len(block)
            _check_total(size, packed)


def _check_total(size: int, packed: Packed) -> None:
    if size > packed.limit:
        raise DataMalformedError(
            f"{packed.field}: unpacked it is larger than {packed.limit >> 20} MiB; use a Git repository, a claim or an "
            "image"
        )


def _check(member: tarfile.TarInfo, links: Collection[str], field: str) -> None:
    """Raise an error for a member that a packed folder does not have, or that leads out of the folder.

    Args:
        member: of the archive.
        links: the symbolic links among all members. No member is below one, so a path is where it appears to be.
        field: the field of the job, for messages.
    """
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or any(str(parent) in links for parent in path.parents):
        raise DataMalformedError(f"{field}: {member.name!r} is not a path within the folder; {PACK_AGAIN}")
    if member.issym() and _leads_out(path, PurePosixPath(member.linkname)):
        raise DataMalformedError(f"{field}: the link {member.name!r} leads out of the folder; {PACK_AGAIN}")
    if not (member.isfile() or member.isdir() or member.issym()):
        raise DataMalformedError(f"{field}: {member.name!r} is neither a file nor a directory; {PACK_AGAIN}")


def _leads_out(link: PurePosixPath, target: PurePosixPath) -> bool:
    """Return whether a link leads out of the folder, or may do so through another link, as `other/..` does."""
    up = next((number for number, part in enumerate(target.parts) if part != ".."), len(target.parts))
    return target.is_absolute() or ".." in target.parts[up:] or up >= len(link.parts)
