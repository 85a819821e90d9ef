"""A folder of an object store: a key prefix. What cannot be renamed there appears by its marker, which is written last.

    <folder>/<subfolder>/<marker>            names the version
    <folder>/<subfolder>/<version>/<file>    files of one write

Each write has a unique version, so that new content replaces the former by one request, which writes the marker.
"""

import contextlib
import errno
import re
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tfdist_trainer.errors import ConfigurationError, DataMissingError, StorageError, TrainerError
from tfdist_trainer.storage import object_urls
from tfdist_trainer.storage.folder import DamagedError, StorageFolder, work_folder
from tfdist_trainer.storage.object_store import WRITE_TIMEOUT, Bucket, download, repeat_if_interrupted
from tfdist_trainer.storage.object_urls import BucketObject

POLL_SECONDS: Final = 5.0
"""Each request has a price."""
_CONFLICTS: Final = 5
"""Attempts of a write that conflict with other writes."""
_VERSION: Final = re.compile(r"(.*-)?[0-9a-f]{16}")
_FORMER: Final = "former"
"""Name of the copy of a subfolder that is being replaced."""
_UNSAFE: Final = frozenset({"", ".", ".."})


@dataclass(frozen=True, slots=True)
class ObjectFolder:
    """See `StorageFolder`."""

    bucket: Bucket
    key: str
    """Of the folder, without a slash at its end; "" for the whole bucket."""
    tag: str = ""
    """Part of the versions of a writer."""
    field: str = "checkpoint.directory"
    """The field of the job that names it or a folder above it, for messages."""

    def __str__(self) -> str:
        return f"{self.bucket.url}/{self.key}".rstrip("/")

    @property
    def poll_seconds(self) -> float:
        """See `StorageFolder`."""
        return POLL_SECONDS

    @property
    def local_path(self) -> None:
        """See `StorageFolder`."""
        return

    def place(self, name: str) -> str:
        """See `StorageFolder`."""
        return f"{self}/{name}"

    def folder(self, name: str) -> "ObjectFolder":
        """See `StorageFolder`."""
        return ObjectFolder(self.bucket, self._key(name), self.tag, self.field)

    def create(self) -> None:
        """See `StorageFolder`: a prefix needs none."""

    def names(self) -> list[str]:
        """See `StorageFolder`."""
        prefix = self._key("")
        with self._field_errors():
            objects, folders = repeat_if_interrupted(lambda: self.bucket.folder(prefix))
        return sorted(each.rstrip("/")[len(prefix) :] for each in [*folders, *(stored.key for stored in objects)])

    def read_text(self, name: str) -> str | None:
        """See `StorageFolder`."""
        stored = self._get(name)
        return stored[0] if stored else None

    def write_text(self, name: str, text: str) -> None:
        """See `StorageFolder`."""
        self._put(name, text.encode())

    def swap_text(self, name: str, text: str, expected: str | None) -> bool:
        """See `StorageFolder`."""
        stored = self._get(name)
        if (stored[0] if stored else None) != expected:
            return False
        # Compared and written by one request (ADR 46).
        if self._put_if(name, text, stored[1] if stored else None):
            return True
        return self.read_text(name) == text  # the response to a first request may have been lost

    def overwrite_text(self, name: str, text: str) -> bool:
        """See `StorageFolder`."""
        for _ in range(_CONFLICTS):
            stored = self._get(name)
            # Another writer has removed it, and it must not come back.
            if stored is None:
                return False
            if self._put_if(name, text, stored[1]):
                break
        return True

    def remove(self, name: str) -> None:
        """See `StorageFolder`."""
        self._delete([self._key(name)])

    @contextmanager
    def stage(self, name: str) -> "Iterator[_StagedObjects]":
        """See `StorageFolder`."""
        with self._temporary() as path:
            yield _StagedObjects(self, name, path, f"{self.tag}-{secrets.token_hex(8)}".lstrip("-"))

    @contextmanager
    def replace_folder(self, name: str, marker: str, check: Callable[[], object]) -> Iterator[Path]:
        """See `StorageFolder`."""
        target, work = self.folder(name), self.folder(work_folder(name))
        # A name of its own for each write: what is left of another one is not taken for it.
        new, former = work.folder(f"{self.tag}-{secrets.token_hex(8)}"), work.folder(_FORMER)
        if former.has(marker) and not target.has(marker):
            target.take(former, marker)
        work.delete_all([each for path, each in work._files().items() if "/" in path])  # noqa: SLF001  not the claim
        with self._temporary() as path:
            yield path
            for each in filter(Path.is_file, path.rglob("*")):
                new.upload(each, each.relative_to(path).as_posix())
        try:
            check()
        except TrainerError:
            with contextlib.suppress(TrainerError):
                work.delete_all(new.tree())  # the successor has removed what was there before
            raise
        # A copy is kept until the new content is whole: an object store cannot rename.
        former.take(target, marker)
        try:
            target.take(new, marker)
        except TrainerError:
            with contextlib.suppress(TrainerError):
                target.take(former, marker)
            raise
        work.delete_all([*new.tree(), *former.tree()])

    def take(self, source: "ObjectFolder", marker: str) -> None:
        """Replace the content of this folder by a copy of `source`: without a marker until it is whole."""
        # First: without it readers find nothing, and not a mixture.
        self.remove(marker)
        # The deepest first: the single file of a format, at the top, is replaced when the files of the other one are.
        kept = source._files()  # noqa: SLF001  same class
        for name, each in sorted(kept.items(), key=lambda item: -item[0].count("/")):
            if name != marker:
                self._copy(each, name)
        self.delete_all([each for name, each in self._files().items() if name not in kept])
        if marker in kept:
            self._copy(kept[marker], marker)

    def has(self, name: str) -> bool:
        """Return whether an object exists in this folder or below it."""
        return name in self._files()

    def move_folder(self, name: str, target: StorageFolder, marker: str) -> None:
        """See `StorageFolder`: copies the objects, the marker last, and then removes them."""
        if not isinstance(target, ObjectFolder):
            raise TypeError(f"{target} is not in an object store")
        # An earlier job may have moved a checkpoint of the same step there.
        target.remove_folder(name, marker)
        source = self.folder(name)
        objects = sorted(source.tree(), key=lambda each: each.key == source._key(marker))  # noqa: SLF001  same class
        with self._field_errors():
            for each in objects:
                below = each.key.removeprefix(self._key(""))
                self.bucket.copy(each, target._key(below))  # noqa: SLF001  same class
        self.remove_folder(name, marker)

    def remove_folder(self, name: str, marker: str) -> None:
        """See `StorageFolder`: the marker first."""
        source = self.folder(name)
        source.remove(marker)
        source.delete_all(source.tree())

    def remove_unfinished(self, prefix: str, marker: str, version_of: Callable[[str], str | None]) -> None:
        """See `StorageFolder`."""
        for name in self.names():
            if name.startswith(prefix):
                source = self.folder(name)
                text = source.read_text(marker)
                version = version_of(text) if text is not None else None
                # A damaged record names no version: nothing is removed by it.
                if text is None or version is not None:
                    source.keep_only(version)

    def fetch(self, version: str | None, sizes: Mapping[str, int]) -> "_FetchedObjects":
        """See `StorageFolder`."""
        source = self.folder(version) if version else self
        objects = {each.key: each for each in source.tree()} if version not in _UNSAFE else {}
        path = self._local_folder("tfdist-download-")
        fetched = _FetchedObjects(path)
        for name in sizes:
            stored = objects.get(source._key(name))  # noqa: SLF001  same class
            # Names come from a record that other users of the bucket may have written.
            if stored is None or "/" in name or name in _UNSAFE:
                raise FileNotFoundError(errno.ENOENT, f"there is no {name}")
            self._download(stored, path / name)
        return fetched

    def tree(self) -> list[BucketObject]:
        """Return all objects in this folder and those below it."""
        with self._field_errors():
            return repeat_if_interrupted(lambda: self.bucket.tree(self._key("")))

    def delete_all(self, objects: list[BucketObject]) -> None:
        """Delete objects."""
        self._delete([each.key for each in objects])

    def keep_only(self, version: str | None) -> None:
        """Delete the files of all versions of this subfolder but one, and no other objects."""
        prefix = self._key("")
        self.delete_all([each for each in self.tree() if _version_of(each.key[len(prefix) :]) not in {None, version}])

    def upload(self, path: Path, name: str) -> None:
        """Write a file of this machine as the object `name`."""
        self._put(name, path)

    @contextmanager
    def _temporary(self) -> Iterator[Path]:
        """Yield a folder of this machine for files that are to be uploaded."""
        path = self._local_folder("tfdist-upload-")
        try:
            yield path
        except OSError as error:
            raise self._local_failure(error, path) from error
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def _files(self) -> dict[str, BucketObject]:
        """Return all objects in this folder and those below it, by their path in it."""
        return {each.key.removeprefix(self._key("")): each for each in self.tree()}

    def _copy(self, source: BucketObject, name: str) -> None:
        with self._field_errors():
            repeat_if_interrupted(lambda: self.bucket.copy(source, self._key(name)))

    def _local_folder(self, prefix: str) -> Path:
        try:
            return Path(tempfile.mkdtemp(prefix=prefix))
        except OSError as error:
            raise self._local_failure(error, Path(tempfile.gettempdir())) from error

    def _key(self, name: str) -> str:
        return f"{self.key}/{name}" if self.key else name

    def _get(self, name: str) -> tuple[str, Mapping[str, str]] | None:
        with self._field_errors():
            stored = repeat_if_interrupted(lambda: self.bucket.get(self._key(name)))
        return (stored[0].decode(errors="replace"), stored[1]) if stored else None

    def _put(self, name: str, content: bytes | Path) -> None:
        with self._field_errors():
            repeat_if_interrupted(lambda: self.bucket.put(self._key(name), content))

    def _put_if(self, name: str, text: str, version: Mapping[str, str] | None) -> bool:
        with self._field_errors():
            return repeat_if_interrupted(lambda: self.bucket.put_if(self._key(name), text.encode(), version))

    def _delete(self, keys: list[str]) -> None:
        with self._field_errors():
            repeat_if_interrupted(lambda: self.bucket.delete(keys))

    def _download(self, stored: BucketObject, path: Path) -> None:
        try:
            with path.open("wb") as file, self._field_errors():
                try:
                    download(self.bucket, stored, file, lambda _: None)
                except DataMissingError:
                    raise DamagedError(f"{stored.url}: was removed while it was read") from None
        except OSError as error:
            raise self._local_failure(error, path.parent) from error

    @contextmanager
    def _field_errors(self) -> Iterator[None]:
        """Raise errors for the field that names the bucket: a bucket that does not exist is not missing data."""
        try:
            yield
        except (ConfigurationError, DataMissingError) as error:
            raise ConfigurationError(f"{self.field}: {error}") from None
        except StorageError as error:
            raise type(error)(f"{self.field}: {error}") from None

    def _local_failure(self, error: OSError, path: Path) -> StorageError:
        return StorageError(
            f"{self.field}: cannot write {path}, where the files of {self} are on this machine: "
            f"{error.strerror or error}; mount a larger volume there, or set TMPDIR to the path of one"
        )


@dataclass(slots=True)
class _StagedObjects:
    folder: ObjectFolder
    name: str
    path: Path
    version: str
    _marker: tuple[str, str] = ("", "")
    _former: str | None = None

    def complete(self, marker: str, text: str) -> None:
        """See `Staged`."""
        target = self.folder.folder(self.name)
        # Read before the upload: `publish` fails if another writer replaces it meanwhile.
        self._marker, self._former = (marker, text), target.read_text(marker)
        # All files first, the record last: it makes the checkpoint valid (ADR 46).
        for path in sorted(self.path.iterdir()):
            target.upload(path, f"{self.version}/{path.name}")

    def publish(self) -> None:
        """See `Staged`."""
        target, (marker, text) = self.folder.folder(self.name), self._marker
        if not target.swap_text(marker, text, expected=self._former):
            raise StorageError(f"{target}: another writer has replaced it meanwhile")
        # Files of the version before; without a record there are none.
        if self._former is not None:
            target.keep_only(self.version)


class _FetchedObjects:
    """Copies of objects, deleted with this."""

    def __init__(self, path: Path) -> None:
        self.path = path
        weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)


def _version_of(name: str) -> str | None:
    """Return the version whose file has this name in its subfolder; None for any other file."""
    version, separator, _ = name.partition("/")
    return version if separator and _VERSION.fullmatch(version) else None


def open_object_folder(url: str, tag: str, field: str) -> ObjectFolder:
    """Return the folder with the URL `s3://bucket/key` or `gs://bucket/key`."""
    bucket, key = object_urls.split(url)
    return ObjectFolder(Bucket(bucket, read_timeout=WRITE_TIMEOUT, writes=True), key.rstrip("/"), tag, field)
