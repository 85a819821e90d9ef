"""Typed errors for the errors of the library that accesses object stores: the cause and the remedy."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from tfdist_trainer.errors import ConfigurationError, DataMissingError, StorageError, TrainerError, one_line

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
