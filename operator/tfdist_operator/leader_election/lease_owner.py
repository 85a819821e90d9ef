"""The owner of the Lease: the controller's ServiceAccount, so that Kubernetes removes the Lease with the installation.

The controller creates the Lease, not the chart: helm would reject an existing Lease and revert the leader's writes.
The token names its ServiceAccount, so no request is needed.
"""

import base64
import binascii
from typing import Any

import orjson


def lease_owner(token: str | None, namespace: str) -> dict[str, Any] | None:
    """Return an owner reference to the ServiceAccount of a token; None if it names none of this namespace.

    The signature is not verified here: the API server rejects the Lease's write of a process with a forged token.
    """
    segments = (token or "").split(".")
    if len(segments) != 3:  # noqa: PLR2004  header, claims and signature of a JSON Web Token
        return None
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(segments[1] + "=" * (-len(segments[1]) % 4)))
        claim = claims["kubernetes.io"]
        name, uid = claim["serviceaccount"]["name"], claim["serviceaccount"]["uid"]
        if claim["namespace"] != namespace or not isinstance(name, str) or not isinstance(uid, str):
            return None  # an owner must be in the same namespace
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None
    return {"apiVersion": "v1", "kind": "ServiceAccount", "name": name, "uid": uid}
