"""Typed errors of API requests. The client raises them; only `reconcile` decides how to handle them."""

import re
from collections.abc import Sequence
from typing import Final


class ApiError(Exception):
    """An error response. `code` is the HTTP status, `reason` the reason in Kubernetes' `Status`."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.fields: tuple[str, ...] = ()
        """Paths of the invalid fields that the server names, such as `status.progress.step`."""
        self.reason = reason
        self.message = message


class NotFoundError(ApiError):
    """404: the object of the request, or its namespace, does not exist."""


class JobGoneError(NotFoundError):
    """404: the job itself has been deleted; it needs no further request."""


class ConflictError(ApiError):
    """409: the object has been written since it was read, or another field manager owns a field."""


class AlreadyExistsError(ApiError):
    """409: an object of this name exists."""


class GoneError(ApiError):
    """410: the resource version has expired; list again."""


class RejectedError(ApiError):
    """403 (quota, policy, permission), 400 or 422 (invalid): a retry of the same request does not succeed."""


class InvalidError(RejectedError):
    """400 or 422: the object is invalid. Another object may be accepted, or the same under another admission policy."""


class NameTakenError(RejectedError):
    """409: an object of that name exists and is not controlled by the job; its deletion helps."""


class NamespaceTerminatingError(RejectedError):
    """403: the namespace is terminating, with all its objects."""


class ForbiddenError(RejectedError):
    """403 by the authorizer; a server that has just started also responds with it until it has loaded its roles."""


class WebhookFailedError(RejectedError):
    """5xx: an admission webhook did not respond, or responded with an error; the object was not stored."""


class UnavailableError(ApiError):
    """429, 5xx, or no response: a retry may succeed."""

    retry_after: bool = False
    """Whether the response had a Retry-After; the server has then not executed the request."""


class SilentWatchError(UnavailableError):
    """A connected watch received no data for a long time: no change, or a dead connection."""


class NotLeadingError(ApiError):
    """The request was not sent: this replica is not the leader, and only the leader writes."""


_FORBIDDEN: Final = 403
_BY_AUTHORIZER: Final = re.compile(r'User "[^"]*" cannot \w+ resource "')
"""Message of a 403 by the authorizer; messages of quotas and policies differ."""
_BY_WEBHOOK: Final = re.compile(r"failed calling webhook|admission webhook \S+ ")
"""Message of a 500 that an admission webhook causes (`apiserver/pkg/admission/plugin/webhook/errors`)."""
_SERVER_ERROR: Final = 500
_INVALID: Final = frozenset({400, 422})
_REJECTED: Final = frozenset({403, 405, 413, 415})
_TYPES: Final[dict[int, type[ApiError]]] = {404: NotFoundError, 409: ConflictError, 410: GoneError}


def error_for(code: int, reason: str, message: str, causes: Sequence[str] = ()) -> ApiError:
    """Return the typed error for a response of the API server; `causes` are the reasons of its details."""
    # First, because it is a 403 like that of a quota, which would be retried.
    if "NamespaceTerminating" in causes:
        return NamespaceTerminatingError(code, reason, message)
    # Before the codes: it is a 409 as a conflict of versions is, and means something else.
    if reason == "AlreadyExists":
        return AlreadyExistsError(code, reason, message)
    if code == _FORBIDDEN and _BY_AUTHORIZER.search(message):
        return ForbiddenError(code, reason, message)
    # A webhook that fails is reported in the status as a rejection; other errors of the server pass by themselves
    # (ADR 19).
    if code >= _SERVER_ERROR and _BY_WEBHOOK.search(message):
        return WebhookFailedError(code, reason, message)
    if code in _INVALID:
        return InvalidError(code, reason, message)
    if code in _REJECTED:
        return RejectedError(code, reason, message)
    return _TYPES.get(code, UnavailableError)(code, reason, message)
