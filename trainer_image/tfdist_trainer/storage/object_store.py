"""A bucket of Amazon S3, of another server with its protocol, or of Google Cloud Storage, accessed by obstore.

obstore is optional, and imported for the first URL. It finds endpoint and credentials as the providers' own tools do:
in environment variables, files that these name, and the metadata of the pod. It repeats a request after an error of the
server or of the connection, up to ten times in three minutes; a body that was cut off resumes where it ended. An error
that it does not repeat is raised as `InterruptedResponseError`, all others as typed errors with their remedy.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, TypeVar
from urllib.parse import unquote

from tfdist.programs.data import OBJECT_ENDPOINTS
from tfdist_trainer.errors import ConfigurationError, DataMissingError, StorageError, TrainerError, one_line
from tfdist_trainer.storage.object_urls import BucketObject

_REMEDIES: Final = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY from a Secret by envFrom, or give the pod a ServiceAccount "
    "with a role; it needs {rights}",
    "gs": "mount a key from a Secret and set GOOGLE_APPLICATION_CREDENTIALS to its path, or give the pod a "
    "ServiceAccount with Workload Identity; it needs {rights}",
}
_RIGHTS: Final = {
    ("s3", False): "s3:ListBucket and s3:GetObject",
    ("s3", True): "s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject",
    ("gs", False): "storage.objects.list and storage.objects.get",
    ("gs", True): "storage.objects.list, get, create and delete",
}
_STATUS: Final = re.compile(r"status code: (\d{3})")
_REQUESTED: Final = re.compile(r"Error performing \w+ (\S+) in")
_RETRIED: Final = re.compile(r"after \d+ retries")
_CODE: Final = re.compile("<Code>([^<]+)</Code>")
_REASON: Final = re.compile("<Message>([^<]+)</Message>")
_DEBUG: Final = "\n\nDebug source:"
_FORBIDDEN: Final = frozenset({401, 403})
_UNKNOWN_KEYS: Final = frozenset({"InvalidAccessKeyId", "XAdminUserNotFound"})
"""Codes for unknown credentials: of Amazon S3, which answers 403, and of Versity's gateway, which answers 404."""
_NOT_FOUND: Final = 404
_BUSY: Final = frozenset({408, 429})
_SERVER_ERROR: Final = 500


class InterruptedResponseError(StorageError):
    """A response has ended early; the same request may succeed."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request failed."""

    url: str
    """Of the object or bucket, for messages."""
    scheme: str
    bucket: str
    server: str
    """The server, for messages."""
    writes: bool = False
    """Whether objects are written there too."""

    @property
    def remedy(self) -> str:
        """What to do if access is denied."""
        return _REMEDIES[self.scheme].format(rights=_RIGHTS[self.scheme, self.writes])


def typed_error(error: Exception, place: Place) -> TrainerError:
    """Return the typed error for an `error` of the library: `InterruptedResponseError` if it may be repeated at once.

    The body of a response is not in the message, apart from its code and reason: it may have parts of credentials.
    """
    text = str(error).partition(_DEBUG)[0]
    code, status = _first_group(_CODE, text), int(_first_group(_STATUS, text) or 0)
    reason = _first_group(_REASON, text)
    response = " ".join(filter(None, [f"HTTP {status}" if status else None, code, f"({reason})" if reason else None]))
    requested_url = _first_group(_REQUESTED, text)
    # The failed request was not for the bucket, but for credentials, as from the metadata of the pod.
    if requested_url is not None and place.bucket not in unquote(requested_url) and status < _SERVER_ERROR:
        return ConfigurationError(f"{place.url}: no credentials were found; {place.remedy}")
    if status in _FORBIDDEN or code in _UNKNOWN_KEYS:
        return ConfigurationError(f"{place.url}: access is denied: {response}; {place.remedy}")
    if status == _NOT_FOUND or isinstance(error, FileNotFoundError):
        missing = "bucket" if code == "NoSuchBucket" or not isinstance(error, FileNotFoundError) else "object"
        return DataMissingError(f"{place.url}: there is no such {missing}; check its name and {place.server}")
    if _SERVER_ERROR > status > 0 and status not in _BUSY:
        return ConfigurationError(f"{place.url}: the request is rejected: {response}; check {place.server}")
    if "redirect" in text:
        return ConfigurationError(f"{place.url}: the bucket is in another region; set AWS_REGION to its region")
    retries_match = _RETRIED.search(text)
    # Cut off within the body, which the library does not repeat (ADR 45).
    if retries_match is None and not status:
        return InterruptedResponseError(f"{place.url}: the response was cut off; check {place.server}")
    retries = f", {retries_match[0]}" if retries_match else ""
    failure = "a request has failed" if place.writes else "cannot be read"
    return StorageError(f"{place.url}: {failure}{retries}: {response or 'no answer'}; check {place.server}")


def settings_error(error: Exception, place: Place) -> ConfigurationError:
    """Return the error for settings that the library rejects."""
    text = one_line(str(error).partition(_DEBUG)[0])
    return ConfigurationError(f"{place.url}: {text}; {place.remedy}")


def _first_group(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None


READ_TIMEOUT: Final = timedelta(seconds=30)
"""A response from which nothing arrives for this time is requested again."""
_REQUEST_TIMEOUT: Final = timedelta(minutes=30)
_CHUNK: Final = 1 << 20
_PART: Final = 64 << 20
"""Bytes of one request of a download: the library retries each request."""
_ATTEMPTS: Final = 5
"""Number of interrupted responses without a byte between them."""
WRITE_TIMEOUT: Final = timedelta(seconds=120)
"""Read timeout of a bucket that is written to: the response to a part arrives after its upload."""
_UPLOAD_PART: Final = 8 << 20
_UPLOAD_PARTS: Final = 9000
"""The largest number of parts of an object; Amazon S3 accepts 10,000."""
_UPLOADS: Final = 4
"""Parts at a time."""
_COPY_LIMIT: Final = 5 << 30
"""Bytes of the largest object that Amazon S3 copies in one request."""

_VERSION: Final = ("e_tag", "version")
_NO_BUCKET: Final = "NoSuchBucket"
_NOT_IMPLEMENTED: Final = "501 Not Implemented"

T = TypeVar("T")


class Bucket:
    """A bucket. May be used by several threads at a time.

    Args:
        url: `s3://name` or `gs://name`.
        read_timeout: see `READ_TIMEOUT`.
        retry: obstore's `RetryConfig`.
        writes: whether objects are written too, for messages.

    Raises:
        ConfigurationError: obstore is not installed, or a setting in the environment is wrong.
    """

    def __init__(
        self,
        url: str,
        *,
        read_timeout: timedelta = READ_TIMEOUT,
        retry: Mapping[str, Any] | None = None,
        writes: bool = False,
    ) -> None:
        self.url = url
        self._obstore = _obstore(url)
        scheme, _, name = url.partition("://")
        variable = next((each for each in OBJECT_ENDPOINTS[scheme] if os.environ.get(each)), None)
        server = f"the server, {variable}={os.environ[variable]}" if variable else "the network"
        self._place = Place(url, scheme, name, server, writes)
        client: dict[str, Any] = {"timeout": _REQUEST_TIMEOUT, "read_timeout": read_timeout}
        if variable and os.environ[variable].startswith("http://"):
            client["allow_http"] = True  # otherwise the library rejects it
        try:
            kind = self._obstore.store.S3Store if scheme == "s3" else self._obstore.store.GCSStore
            self._store = kind(name, client_options=client, retry_config=retry)
        except Exception as error:  # its types differ between settings
            raise settings_error(error, self._place) from None

    def folder(self, prefix: str) -> tuple[list[BucketObject], list[str]]:
        """Return the objects directly in the folder `prefix`, and the prefixes of its folders; errors as of `read`."""
        with self._typed_errors(self.url):
            listing = self._obstore.list_with_delimiter(self._store, prefix or None)
            return [self._object(each) for each in listing["objects"]], list(listing["common_prefixes"])

    def tree(self, prefix: str) -> list[BucketObject]:
        """Return all objects below the folder `prefix`; errors as of `read`."""
        with self._typed_errors(self.url):
            return [self._object(each) for each in self._obstore.list(self._store, prefix or None).collect()]

    def find(self, key: str) -> BucketObject:
        """Return the object with a key; errors as of `read`."""
        with self._typed_errors(f"{self.url}/{key}"):
            return self._object(self._obstore.head(self._store, key))

    def read(self, stored: BucketObject, start: int, end: int) -> Iterator[Any]:
        """Yield the bytes from `start` to before `end` of an object, as buffers.

        Raises:
            DataMissingError: the object or the bucket does not exist.
            ConfigurationError: access is denied, or the request is wrong.
            InterruptedResponseError: the response has ended early.
            StorageError: the server has failed after all retries, or the object has changed.
        """
        with self._typed_errors(stored.url):
            result = self._obstore.get(self._store, stored.key, options={"range": (start, end)})
            # Not every server honours `If-Match`, so the answer is compared (ADR 45).
            if (result.meta["size"], _version(result.meta)) != (stored.size, stored.version):
                raise StorageError(
                    f"{stored.url}: has changed since it was listed; a restarted job reads the new object"
                )
            yield from result.stream(min_chunk_size=_CHUNK)

    def get(self, key: str) -> tuple[bytes, Mapping[str, str]] | None:
        """Return a small object and its version, see `put_if`; None if it does not exist. Errors as of `read`."""
        with self._typed_errors(f"{self.url}/{key}"):
            try:
                result = self._obstore.get(self._store, key)
                return bytes(result.bytes()), {name: result.meta[name] for name in _VERSION if result.meta[name]}
            except FileNotFoundError as error:
                # A missing bucket is an error of the job, a missing object an answer.
                if _NO_BUCKET in str(error):
                    raise
                return None

    def put(self, key: str, content: bytes | Path) -> None:
        """Create or replace an object, a large file in several parts; errors as of `read`."""
        size = content.stat().st_size if isinstance(content, Path) else len(content)
        # The number of parts is limited, not their size.
        part = max(_UPLOAD_PART, -(-size // _UPLOAD_PARTS))
        with self._typed_errors(f"{self.url}/{key}"), self._write_errors():
            self._obstore.put(self._store, key, content, chunk_size=part, max_concurrency=_UPLOADS)

    def put_if(self, key: str, content: bytes, version: Mapping[str, str] | None) -> bool:
        """Write an object if it still has the `version` that `get` returned, None for no object; return whether it had.

        A store without conditional writes always writes. Errors as of `read`.
        """
        errors = self._obstore.exceptions
        with self._typed_errors(f"{self.url}/{key}"), self._write_errors():
            try:
                self._obstore.put(self._store, key, content, mode="create" if version is None else dict(version))
            except (errors.AlreadyExistsError, errors.PreconditionError):
                return False
            except (errors.NotSupportedError, errors.GenericError, NotImplementedError) as error:
                # A store without conditional writes is written without (ADR 46).
                if _NOT_IMPLEMENTED not in str(error) and not isinstance(error, errors.NotSupportedError):
                    raise
                self._obstore.put(self._store, key, content)
        return True

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, if they exist; errors as of `read`."""
        with self._typed_errors(self.url):
            if self._place.scheme == "s3" and keys:
                self._obstore.delete(self._store, list(keys))
                return
            for key in keys:  # Google's response for a key that does not exist is an error, which ends a list
                with suppress(FileNotFoundError):
                    self._obstore.delete(self._store, key)

    def copy(self, source: BucketObject, key: str) -> None:
        """Copy an object within the bucket; errors as of `read`."""
        with self._typed_errors(source.url):
            # Amazon S3 copies 5 GiB in a request.
            if source.size > _COPY_LIMIT:
                self._obstore.put(self._store, key, self._obstore.get(self._store, source.key).stream(_UPLOAD_PART))
            else:
                self._obstore.copy(self._store, source.key, key)

    @contextmanager
    def _write_errors(self) -> Iterator[None]:
        """Raise an error for the bucket if a store answers that it has not found a new object."""
        try:
            yield
        except FileNotFoundError:
            text = f"{self.url}: there is no such bucket; check its name and {self._place.server}"
            raise DataMissingError(text) from None

    @contextmanager
    def _typed_errors(self, url: str) -> Iterator[None]:
        place = replace(self._place, url=url)
        try:
            yield
        except TrainerError:
            raise
        except (self._obstore.exceptions.BaseError, OSError, ValueError) as error:
            raise typed_error(error, place) from None

    def _object(self, meta: Mapping[str, Any]) -> BucketObject:
        return BucketObject(f"{self.url}/{meta['path']}", meta["path"], meta["size"], _version(meta))


def _obstore(url: str) -> Any:
    """Return the module `obstore` with its submodules."""
    try:
        import_module("obstore.store")
        import_module("obstore.exceptions")
        return import_module("obstore")
    except ModuleNotFoundError:
        raise ConfigurationError(
            f"{url} is read by obstore, which is not installed: install obstore in the image, "
            "or use files of a mounted volume"
        ) from None


def _version(meta: Mapping[str, Any]) -> str:
    """Return the version of an object. Some servers have quotes around an ETag in one kind of response only."""
    tag: str | None = meta["e_tag"]
    return tag.removeprefix("W/").strip('"') if tag else str(meta["last_modified"])


def download(bucket: Bucket, stored: BucketObject, file: IO[bytes], received: Callable[[int], None]) -> None:
    """Write an object to a file, in place of its content; call `received` with numbers of bytes.

    Errors as of `Bucket.read`.
    """
    position = failures = 0
    file.truncate(0)
    while (start := position) < stored.size:
        try:
            for part in bucket.read(stored, start, min(start + _PART, stored.size)):
                position += file.write(part)
                received(len(part))
        except InterruptedResponseError:
            # Progress counts: only a server that sends nothing gives up.
            failures = 1 if position > start else failures + 1
            if failures == _ATTEMPTS:
                raise
            time.sleep(_pause(failures))
    file.flush()
    os.fsync(file.fileno())


def repeat_if_interrupted(call: Callable[[], T]) -> T:
    """Return the result of `call`, which is repeated if its response was interrupted."""
    for attempt in range(1, _ATTEMPTS):
        try:
            return call()
        except InterruptedResponseError:
            time.sleep(_pause(attempt))
    return call()


def _pause(failures: int) -> float:
    """Return the seconds to wait after a number of `failures`: 0.2, 0.4, 0.8, ..."""
    return float(0.1 * 2**failures)
