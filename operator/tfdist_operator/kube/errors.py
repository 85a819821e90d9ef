"""What the API server refuses, as types. Raised in the client, turned into a decision in `reconcile` alone."""

import re
from collections.abc import Sequence
from typing import Final


class ApiError(Exception):
    """An answer other than success. `code` is the HTTP status, `reason` Kubernetes' own word for it."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message


class NotFound(ApiError):  # noqa: N818  these names are Kubernetes' own reasons
    """404: the object is gone."""


class Conflict(ApiError):  # noqa: N818
    """409: somebody else has written the object since it was read, or another field manager owns a field."""


class AlreadyExists(ApiError):  # noqa: N818
    """409: an object of this name is there."""


class Gone(ApiError):  # noqa: N818
    """410: the resource version is too old to watch from; list again."""


class Refused(ApiError):  # noqa: N818
    """403 (quota, policy, permission), 400 or 422 (invalid): repeating the same request does not help."""


class NamespaceTerminating(Refused):
    """403: the namespace is being deleted, and all that is in it goes with it."""


class NotAllowed(Refused):
    """403: our account may not do it; also said for a moment by a server that has started and not read its roles."""


class Unavailable(ApiError):  # noqa: N818
    """429, 5xx, or no answer at all: the same request may succeed later."""

    retry_after: bool = False
    """Whether the server has said when to ask again; it has then not acted on the request."""


class NotLeading(ApiError):  # noqa: N818
    """Nothing was sent: this replica does not lead, and only the leader writes."""


_FORBIDDEN: Final = 403
_BY_AUTHORIZER: Final = re.compile(r'User "[^"]*" cannot \w+ resource "')
"""How the API server words its refusal by the account's roles; quotas and policies have other words."""
_REFUSED: Final = frozenset({400, 403, 405, 413, 415, 422})
_TYPES: Final[dict[int, type[ApiError]]] = {404: NotFound, 409: Conflict, 410: Gone}


def error_for(code: int, reason: str, message: str, causes: Sequence[str] = ()) -> ApiError:
    """Return the typed error for an answer of the API server; `causes` are the reasons of its details."""
    if "NamespaceTerminating" in causes:
        return NamespaceTerminating(code, reason, message)
    if reason == "AlreadyExists":
        return AlreadyExists(code, reason, message)
    if code == _FORBIDDEN and _BY_AUTHORIZER.search(message):
        return NotAllowed(code, reason, message)
    if code in _REFUSED:
        return Refused(code, reason, message)
    return _TYPES.get(code, Unavailable)(code, reason, message)
