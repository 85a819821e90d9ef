"""Code in an object store: uploaded under the hash of its content with the user's credentials, once for all jobs.

obstore, which the trainer uses too, is optional. It finds the credentials in environment variables, in the file of
`gcloud auth application-default login`, and in the metadata of a pod or machine.
"""

import os
import re
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any, Final

from tfdist.client.code_archive import CodeArchive
from tfdist.client.errors import CodeError
from tfdist.programs.data import OBJECT_ENDPOINTS

VARIABLE: Final = "TFDIST_CODE_STORE"
"""Environment variable with the store of all submissions that name none."""

_STORE: Final = re.compile(r"(?:s3|gs)://[^/@\s]+(?:/[^/\s]+)*/?")
_INSTALL: Final = "pip install 'tfdist-cli[object-store]'"
_CREDENTIALS: Final = {
    "s3": "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, for example by "
    'eval "$(aws configure export-credentials --format env)"',
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to the path of a key, or run gcloud auth application-default login",
}
_RIGHTS: Final = {"s3": "s3:GetObject and s3:PutObject", "gs": "storage.objects.get and storage.objects.create"}
_STATUS: Final = re.compile(r"status(?: code)?: (\d{3})")
_CODE: Final = re.compile("<Code>([^<]+)</Code>")
_DEBUG: Final = "\n\nDebug source:"
_CLIENT: Final[dict[str, Any]] = {"timeout": timedelta(minutes=30), "connect_timeout": timedelta(seconds=10)}
_RETRIES: Final = {"max_retries": 3, "retry_timeout": timedelta(minutes=1)}


def store_of(option: str | None) -> str | None:
    """Return the URL of the store of code that an option names, or else `TFDIST_CODE_STORE`; None without both.

    Raises:
        CodeError: it is not the URL of a bucket or of a prefix in it.
    """
    store = option or os.environ.get(VARIABLE) or None
    if store is not None and not _STORE.fullmatch(store):
        raise CodeError(
            f"code store {store!r}: write s3://bucket/prefix or gs://bucket/prefix, without credentials "
            f"(--code-store, code_store or {VARIABLE})"
        )
    return store.rstrip("/") if store else None


@dataclass(frozen=True, slots=True)
class CodeUpload:
    """An archive, and the object that it becomes."""

    url: str
    sha256: str
    content: bytes

    @classmethod
    def of(cls, archive: CodeArchive, store: str) -> "CodeUpload":
        """Return the upload of an archive; the name of the object is the hash of its content."""
        sha256 = archive.sha256
        return cls(f"{store}/{sha256}.tar.gz", sha256, archive.content)

    @property
    def source(self) -> dict[str, str]:
        """`training.source.object` of the job."""
        return {"url": self.url, "sha256": self.sha256}

    def run(self) -> None:
        """Upload the archive, unless the store has an object of this name and size.

        Raises:
            CodeError: obstore is not installed, credentials are missing or rejected, or the server fails.
        """
        obstore = _obstore(self.url)
        scheme, _, path = self.url.partition("://")
        bucket, _, key = path.partition("/")
        try:
            store = _open(obstore, scheme, bucket)
            if not self._is_stored(obstore, store, key):
                obstore.put(store, key, self.content)
        except (obstore.exceptions.BaseError, OSError, ValueError) as error:
            raise CodeError(_failure(error, self.url, scheme)) from None

    def _is_stored(self, obstore: Any, store: Any, key: str) -> bool:
        try:
            return bool(obstore.head(store, key)["size"] == len(self.content))
        except (FileNotFoundError, obstore.exceptions.PermissionDeniedError):
            return False  # a user who may write and not list gets 403 for an object that is absent


def _obstore(url: str) -> Any:
    """Return the module `obstore` with its submodules."""
    try:
        import_module("obstore.store")
        import_module("obstore.exceptions")
        return import_module("obstore")
    except ModuleNotFoundError:
        raise CodeError(f"{url}: the code is uploaded by obstore, which is not installed: {_INSTALL}") from None


def _open(obstore: Any, scheme: str, bucket: str) -> Any:
    endpoint = next((os.environ[name] for name in OBJECT_ENDPOINTS[scheme] if os.environ.get(name)), "")
    options = _CLIENT | ({"allow_http": True} if endpoint.startswith("http://") else {})
    kind = obstore.store.S3Store if scheme == "s3" else obstore.store.GCSStore
    return kind(bucket, client_options=options, retry_config=_RETRIES)


def _failure(error: Exception, url: str, scheme: str) -> str:
    """Return the message for an error of the library, without the body of a response, which may have credentials."""
    text = str(error).partition(_DEBUG)[0]
    status, code = _STATUS.search(text), _CODE.search(text)
    response = " ".join(filter(None, (f"HTTP {status[1]}" if status else "", code[1] if code else "")))
    remedy = f"{_CREDENTIALS[scheme]}; they need {_RIGHTS[scheme]}"
    if (code and code[1] == "NoSuchBucket") or isinstance(error, FileNotFoundError):
        return f"{url}: the code cannot be uploaded: there is no such bucket; check --code-store"
    # without credentials the library asks the metadata of the machine, not the bucket
    bucket = url.partition("://")[2].partition("/")[0]
    if "http" in text and bucket not in text:
        return f"{url}: the code cannot be uploaded: no credentials were found; {remedy}"
    if response:
        return f"{url}: the code cannot be uploaded: {response}; {remedy}"
    return f"{url}: the code cannot be uploaded: {' '.join(text.split())}; {remedy}"
