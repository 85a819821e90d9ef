"""Joins the parts of an archive of code, or downloads it from an object store, and unpacks what has the right hash."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from tfdist.contract import CODE_BYTES, STORED_CODE_BYTES
from tfdist_trainer import archive, log
from tfdist_trainer.archive import Packed
from tfdist_trainer.errors import DataMalformedError, DataMissingError, StorageError, TrainerError, one_line
from tfdist_trainer.storage import object_urls
from tfdist_trainer.storage.object_store import Bucket, download, repeat_if_interrupted

_ARCHIVE: Final = "training.source.archive"
_OBJECT: Final = "training.source.object"


def unpack_parts(parts: Sequence[Path], sha256: str | None, target: Path) -> None:
    """Write the files of an archive to an empty directory.

    Args:
        parts: the files of which the archive consists, in the order of their content.
        sha256: hash that the archive must have; None compares none.
        target: the directory.

    Raises:
        DataMissingError: a part does not exist.
        DataMalformedError: the archive has another hash, or see `archive.unpack`.
        StorageError: `target` cannot be written.
    """
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        which = "the ConfigMap has no key" if len(parts) == 1 else f"of {len(parts)} parts this is missing:"
        raise DataMissingError(f"{_ARCHIVE}: {which} {missing[0]}; {archive.PACK_AGAIN}")
    name = parts[0].name if len(parts) == 1 else f"the archive of {len(parts)} parts"
    with _temporary(target, _ARCHIVE) as joined:
        for part in parts:
            with part.open("rb") as content:
                shutil.copyfileobj(content, joined)
        _unpack(Packed(joined, name, _ARCHIVE, CODE_BYTES), sha256, target)


def fetch_object(url: str, sha256: str, target: Path) -> None:
    """Write the files of an archive in an object store to an empty directory.

    Args:
        url: of the object.
        sha256: hash that it must have.
        target: the directory.

    Raises:
        DataMissingError: the object or the bucket does not exist.
        ConfigurationError: access is denied, a setting is wrong, or obstore is not installed.
        DataMalformedError: the object has another hash, or see `archive.unpack`.
        StorageError: the server fails, or `target` cannot be written.
    """
    with _temporary(target, _OBJECT) as content:
        try:
            _download(url, content)
        except TrainerError as error:
            raise type(error)(f"{_OBJECT}.url: {error}") from None
        _unpack(Packed(content, url, _OBJECT, STORED_CODE_BYTES), sha256, target)


def _download(url: str, content: IO[bytes]) -> None:
    place, key = object_urls.split(url)
    bucket = Bucket(place)
    stored = repeat_if_interrupted(lambda: bucket.find(key))
    if stored.size > STORED_CODE_BYTES:
        limit = STORED_CODE_BYTES >> 20
        raise DataMalformedError(f"{url}: it has {stored.size >> 20} MiB, and at most {limit} MiB are fetched")
    download(bucket, stored, content, lambda _: None)
    log.event("fetched", url=url, bytes=stored.size)


def _unpack(packed: Packed, sha256: str | None, target: Path) -> None:
    if sha256 is not None:
        archive.check_hash(packed, sha256)
    archive.unpack(packed, target)


def _temporary(target: Path, field: str) -> IO[bytes]:
    """Return a file without a name in the directory: the container cannot write to any other."""
    try:
        return tempfile.TemporaryFile(dir=target)
    except OSError as error:
        text = error.strerror or one_line(str(error))
        raise StorageError(f"{field}: cannot write {target}: {text}") from None
