"""Objects of a store as local files: each is downloaded once, several at a time, and then read like any other file.

The copy of each version of an object has a unique name in the cache directory, so a changed object is another file.
Processes may share the directory: a copy is written under a temporary name, which one of them locks, and renamed when
it is complete. All others wait for it. The lock ends with the process. The name of a complete copy has the ETag and the
size of its object, and it has the content of the object as far as only trusted users write to the directory: the
default one is private to its user.
"""

import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Final

from tfdist_trainer import log
from tfdist_trainer.errors import ConfigurationError, DataMissingError, StorageError, TrainerError
from tfdist_trainer.private_directory import private_directory
from tfdist_trainer.storage import object_urls
from tfdist_trainer.storage.object_store import Bucket, repeat_if_interrupted
from tfdist_trainer.storage.object_store import download as download_object
from tfdist_trainer.storage.object_urls import BucketObject

_THREADS: Final = 8
_LOG_SECONDS: Final = 5.0

Received = Callable[[int], None]


class _Stopped(Exception):  # noqa: N818  ends a thread
    """The download of another object has failed."""


class Transfer:
    """Downloads `objects` by `copy`, which calls its second argument with each number of received bytes."""

    def __init__(self, objects: Sequence[BucketObject], copy: Callable[[BucketObject, Received], None]) -> None:
        self._objects = objects
        self._copy = copy
        self._lock = threading.Lock()
        self._bytes = 0
        self._stop = threading.Event()

    def run(self) -> None:
        """Download all. The first error ends the others, and is raised."""
        start = time.monotonic()
        with ThreadPoolExecutor(min(_THREADS, len(self._objects)), thread_name_prefix="download") as pool:
            downloads = [pool.submit(self._copy, each, self._count_bytes) for each in self._objects]
            try:
                pending = set(downloads)
                while pending:
                    finished, pending = wait(pending, _LOG_SECONDS, FIRST_EXCEPTION)
                    for each in finished:
                        each.result()
                    if pending:
                        self._log("download", len(self._objects) - len(pending), start)
            finally:
                # The first error ends the other downloads at their next block.
                self._stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
        self._log("downloaded", len(self._objects), start)

    def _count_bytes(self, count: int) -> None:
        if self._stop.is_set():
            raise _Stopped
        with self._lock:
            self._bytes += count

    def _log(self, event: str, finished: int, start: float) -> None:
        seconds = time.monotonic() - start
        log.event(
            event,
            objects=finished,
            of=len(self._objects),
            mib=self._bytes / 2**20,
            ofMib=sum(each.size for each in self._objects) / 2**20,
            mibPerSecond=self._bytes / 2**20 / max(seconds, 1e-3),
        )


DIRECTORY_ENV: Final = "TFDIST_DATA_CACHE"
"""Environment variable with the cache directory; by default `tfdist-objects-UID` in the temporary directory,
private to the user with that number."""

_PARTIAL: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_NAME_LENGTH: Final = 80


class DownloadCache:
    """The objects that this process uses, as they were when it listed them first.

    Args:
        directory: of the copies.
        open_bucket: returns the bucket of a URL.
        disk_usage: returns the bytes of the file system of a path: all, used, free.
    """

    def __init__(
        self,
        directory: Path,
        *,
        open_bucket: Callable[[str], Bucket] = Bucket,
        disk_usage: Callable[[Path], tuple[int, int, int]] = shutil.disk_usage,
    ) -> None:
        self._directory = directory
        self._open_bucket = cache(open_bucket)
        self._disk_usage = disk_usage
        self._folder = cache(self._list_folder)
        self._tree = cache(self._list_tree)
        self._objects: dict[str, BucketObject] = {}

    def matches(self, pattern: str) -> list[str]:
        """Return the URLs of the objects that match the URL `pattern`, sorted.

        Raises:
            DataMissingError: the bucket does not exist.
            ConfigurationError: access is denied, or obstore is not installed.
            StorageError: the server cannot be reached.
        """
        bucket, key = object_urls.split(pattern)
        # The first list of a process is valid until its end: all see one version of each object (ADR 45).
        matched = {each.url: each for each in self._walk(bucket, "", key.split("/"))}
        self._objects.update(matched)
        return sorted(matched)

    def download(self, names: Sequence[str]) -> None:
        """Download the objects among `names` that have no copy yet, several at a time; errors as of `path`."""
        requested = {name: self._objects[name] for name in names if object_urls.is_url(name)}
        missing = [each for each in requested.values() if not self._is_complete(each)]
        if missing:
            # Before the first byte: hours of downloads would end in a full disk.
            self._require_space(missing)
            Transfer(missing, self._copy).run()

    def path(self, name: str) -> Path:
        """Return the copy of the object `name`, downloaded if it is not there.

        Raises:
            DataMissingError: it does not exist any more.
            ConfigurationError: access is denied, or the file system of the cache is too small or not writable.
            StorageError: the server or the file system has failed, or the object has changed.
        """
        if name not in self._objects and name not in self.matches(name):
            raise DataMissingError(f"{name}: there is no such object; check the bucket and the key")
        self.download([name])
        return self._path(self._objects[name])

    def _walk(self, bucket: str, prefix: str, pattern: Sequence[str]) -> Iterator[BucketObject]:
        """Yield the objects below `prefix` that match `pattern`; only folders that may have one are listed."""
        part, remaining = pattern[0], pattern[1:]
        if part == object_urls.RECURSIVE:
            start = len(prefix)
            for each in self._tree(bucket, prefix):
                if object_urls.matches(each.key[start:].split("/"), pattern):
                    yield each
        elif not remaining:
            objects, _ = self._folder(bucket, prefix)
            yield from (each for each in objects if object_urls.part_matches(each.key[len(prefix) :], part))
        elif not object_urls.is_pattern(part):
            yield from self._walk(bucket, f"{prefix}{part}/", remaining)
        else:
            for folder in self._folder(bucket, prefix)[1]:
                if object_urls.part_matches(folder.rstrip("/")[len(prefix) :], part):
                    yield from self._walk(bucket, f"{folder.rstrip('/')}/", remaining)

    def _list_folder(self, bucket: str, prefix: str) -> tuple[list[BucketObject], list[str]]:
        return repeat_if_interrupted(lambda: self._open_bucket(bucket).folder(prefix))

    def _list_tree(self, bucket: str, prefix: str) -> list[BucketObject]:
        return repeat_if_interrupted(lambda: self._open_bucket(bucket).tree(prefix))

    def _path(self, stored: BucketObject) -> Path:
        identity = "\0".join([stored.url, stored.version, str(stored.size)])
        name = _UNSAFE.sub("_", stored.key.rpartition("/")[2])[-_NAME_LENGTH:]
        return self._directory / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}-{name}"

    def _is_complete(self, stored: BucketObject) -> bool:
        try:
            found = self._path(stored).lstat()  # whoever may write there could link to a file elsewhere
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode) and found.st_size == stored.size

    def _copy(self, stored: BucketObject, received: Callable[[int], None]) -> None:
        """Download an object, unless another process has done so; call `received` with numbers of bytes."""
        path = self._path(stored)
        try:
            with _lock_file(path.with_name(f"{path.name}.partial")) as (file, partial):
                # Looked at again under the lock: another process may have been faster.
                if not self._is_complete(stored):
                    bucket, _ = object_urls.split(stored.url)
                    download_object(self._open_bucket(bucket), stored, file, received)
                    # Complete and flushed: a killed process leaves nothing that is taken for a copy (ADR 45).
                    partial.rename(path)
                else:
                    received(stored.size)
                    partial.unlink()
        except OSError as error:
            raise self._write_failure(error, stored) from None

    def _require_space(self, missing: Sequence[BucketObject]) -> None:
        """Raise if the file system of the cache has no space for the `missing` objects."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise ConfigurationError(f"{DIRECTORY_ENV}: cannot create {self._directory}: {error.strerror}") from None
        (total, _, free), needed = self._disk_usage(self._directory), sum(each.size for each in missing)
        if needed > free:
            text = f"{missing[0].url} and {len(missing) - 1} more objects" if len(missing) > 1 else missing[0].url
            # A disk that others fill may become free; one that is too small does not.
            kind = StorageError if needed <= total else ConfigurationError
            raise kind(
                f"{text}: copies need {_size(needed)}, and {self._directory} has {_size(free)} free of "
                f"{_size(total)}; {self._remedy}"
            )

    def _write_failure(self, error: OSError, stored: BucketObject) -> TrainerError:
        text = f"{stored.url}: cannot write its copy in {self._directory}: {error.strerror}"
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            return ConfigurationError(f"{text}; set fsGroup, so that the volume is writable for user {os.getuid()}")
        return StorageError(f"{text}; {self._remedy}" if error.errno in {errno.ENOSPC, errno.EDQUOT} else text)

    @property
    def _remedy(self) -> str:
        return f"mount a larger volume, such as an ephemeral one, and set {DIRECTORY_ENV} to its path"


@cache
def objects() -> DownloadCache:
    """Return the cache of this process.

    Raises:
        ConfigurationError: no directory is named, and another user has made the default one.
    """
    if given := os.environ.get(DIRECTORY_ENV):
        return DownloadCache(Path(given))
    return DownloadCache(
        private_directory(f"tfdist-objects-{os.geteuid()}", f"set {DIRECTORY_ENV} to a directory of your own")
    )


def local(name: str) -> str:
    """Return the path that the file `name` is read from: the path of its copy if it is the URL of an object.

    Errors as of `DownloadCache.path`.
    """
    return str(objects().path(name)) if object_urls.is_url(name) else name


def download(names: Sequence[str]) -> None:
    """Download the objects whose URLs are among `names` and that have no copy; errors as of `DownloadCache.path`."""
    if any(map(object_urls.is_url, names)):
        objects().download(names)


def is_file(name: str) -> bool:
    """Return whether `name` is the path of a file or the URL of an object; errors as of `DownloadCache.matches`."""
    return bool(objects().matches(name)) if object_urls.is_url(name) else Path(name).is_file()


@contextmanager
def _lock_file(path: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """Yield the file `path`, created if absent, and its path, while no other process or thread holds its lock."""
    while True:
        with os.fdopen(os.open(path, _PARTIAL, 0o600), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                current = path.stat().st_ino == os.fstat(file.fileno()).st_ino
            except FileNotFoundError:
                current = False
            if current:  # otherwise the previous holder of the lock has renamed or removed it
                yield file, path
                return


def _size(number: int) -> str:
    gib = number / 2**30
    return f"{gib:.1f} GiB" if gib >= 1 else f"{number / 2**20:.1f} MiB"
