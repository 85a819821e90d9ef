"""A bucket of Amazon S3, of another server with its protocol, or of Google Cloud Storage, read by obstore.

obstore is optional, and imported for the first URL. It finds endpoint and credentials as the providers' own tools do:
in environment variables, files that these name, and the metadata of the pod. It repeats a request after an error of the
server or of the connection, up to ten times in three minutes; a body that was cut off goes on where it ended. An error
that it does not repeat is raised as `InterruptedResponseError`.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any, Final

from tfdist_trainer.errors import ConfigurationError, StorageError, TrainerError
from tfdist_trainer.storage.object_failures import Place, of_settings, typed
from tfdist_trainer.storage.object_urls import StoredObject

READ_TIMEOUT: Final = timedelta(seconds=30)
"""A response from which nothing arrives for so long is requested again."""
_REQUEST_TIMEOUT: Final = timedelta(minutes=30)
_ENDPOINTS: Final = {"s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"), "gs": ("GOOGLE_BASE_URL",)}
_CHUNK: Final = 1 << 20


class Bucket:
    """A bucket. May be used by several threads at a time.

    Args:
        url: `s3://name` or `gs://name`.
        read_timeout: see `READ_TIMEOUT`.
        retry: obstore's `RetryConfig`.

    Raises:
        ConfigurationError: obstore is not installed, or a setting in the environment is wrong.
    """

    def __init__(
        self, url: str, *, read_timeout: timedelta = READ_TIMEOUT, retry: Mapping[str, Any] | None = None
    ) -> None:
        self.url = url
        self._obstore = _obstore(url)
        scheme, _, name = url.partition("://")
        variable = next((each for each in _ENDPOINTS[scheme] if os.environ.get(each)), None)
        server = f"the server, {variable}={os.environ[variable]}" if variable else "the network"
        self._place = Place(url, scheme, name, server)
        client: dict[str, Any] = {"timeout": _REQUEST_TIMEOUT, "read_timeout": read_timeout}
        if variable and os.environ[variable].startswith("http://"):
            client["allow_http"] = True  # otherwise the library rejects it
        try:
            kind = self._obstore.store.S3Store if scheme == "s3" else self._obstore.store.GCSStore
            self._store = kind(name, client_options=client, retry_config=retry)
        except Exception as error:  # its types differ between settings
            raise of_settings(error, self._place) from None

    def folder(self, prefix: str) -> tuple[list[StoredObject], list[str]]:
        """Return the objects directly in the folder `prefix`, and the prefixes of its folders; errors as of `read`."""
        with self._typed_errors(self.url):
            found = self._obstore.list_with_delimiter(self._store, prefix or None)
            return [self._object(each) for each in found["objects"]], list(found["common_prefixes"])

    def tree(self, prefix: str) -> list[StoredObject]:
        """Return all objects below the folder `prefix`; errors as of `read`."""
        with self._typed_errors(self.url):
            return [self._object(each) for each in self._obstore.list(self._store, prefix or None).collect()]

    def read(self, wanted: StoredObject, start: int, end: int) -> Iterator[Any]:
        """Yield the bytes from `start` to before `end` of an object, as buffers.

        Raises:
            DataMissingError: the object or the bucket does not exist.
            ConfigurationError: access is denied, or the request is wrong.
            InterruptedResponseError: the response has ended early.
            StorageError: the server has failed after all retries, or the object has changed.
        """
        with self._typed_errors(wanted.url):
            result = self._obstore.get(self._store, wanted.key, options={"range": (start, end)})
            if (result.meta["size"], _version(result.meta)) != (wanted.size, wanted.version):
                raise StorageError(
                    f"{wanted.url}: has changed since it was listed; a restarted job reads the new object"
                )
            yield from result.stream(min_chunk_size=_CHUNK)

    @contextmanager
    def _typed_errors(self, url: str) -> Iterator[None]:
        place = Place(url, self._place.scheme, self._place.bucket, self._place.server)
        try:
            yield
        except TrainerError:
            raise
        except (self._obstore.exceptions.BaseError, OSError, ValueError) as error:
            raise typed(error, place) from None

    def _object(self, meta: Mapping[str, Any]) -> StoredObject:
        return StoredObject(f"{self.url}/{meta['path']}", meta["path"], meta["size"], _version(meta))


def _obstore(url: str) -> Any:
    """Return the module `obstore` with its submodules."""
    try:
        import_module("obstore.store")
        import_module("obstore.exceptions")
        return import_module("obstore")
    except ModuleNotFoundError:
        raise ConfigurationError(
            f"{url} is read by obstore, which is not installed: install obstore in the image, "
            "or mount the data as files"
        ) from None


def _version(meta: Mapping[str, Any]) -> str:
    """Return the version of an object. Some servers have quotes around an ETag in one kind of answer only."""
    tag: str | None = meta["e_tag"]
    return tag.removeprefix("W/").strip('"') if tag else str(meta["last_modified"])
