"""The Lease of the leader election, as the API server stores it (coordination.k8s.io/v1), and its owner."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from tfdist_operator.kube.client import ApiClient
from tfdist_operator.kube.errors import NotFoundError
from tfdist_operator.kube.json_bodies import Json

GROUP: Final = "coordination.k8s.io"
RESOURCE: Final = "leases"


def lease_owner(token: str | None, namespace: str) -> dict[str, Any] | None:
    """Return an owner reference to the ServiceAccount of a token; None if it is not of this namespace."""
    segments = (token or "").split(".")
    if len(segments) != 3:  # noqa: PLR2004  header, claims and signature of a JSON Web Token
        return None
    try:
        # The token names its ServiceAccount with its UID, so that no request is needed. Its signature need not be
        # verified: the API server rejects the write of a process with a forged token.
        claims = orjson.loads(base64.urlsafe_b64decode(segments[1] + "=" * (-len(segments[1]) % 4)))
        claim = claims["kubernetes.io"]
        name, uid = claim["serviceaccount"]["name"], claim["serviceaccount"]["uid"]
        if claim["namespace"] != namespace or not isinstance(name, str) or not isinstance(uid, str):
            return None  # an owner must be in the same namespace
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None
    return {"apiVersion": "v1", "kind": "ServiceAccount", "name": name, "uid": uid}


@dataclass(frozen=True, slots=True)
class LeaderElectionRecord:
    """A stored Lease. Times are RFC 3339 with microseconds, by the clock of the writer."""

    holder: str
    """Identity of the leader; "" if the last leader has released the Lease."""
    duration_seconds: int
    acquired_at: str
    renewed_at: str
    transitions: int
    """Number of changes of the leader."""
    version: str = ""
    """resourceVersion; "" for a Lease that is not stored yet."""


class LeaseLock:
    """One Lease by its namespace and name."""

    def __init__(self, client: ApiClient, namespace: str, name: str, token: str | None = None) -> None:
        """Set the ServiceAccount of `token`, the controller's, as owner: Kubernetes deletes the Lease with it."""
        # Created by the controller and not by the chart: Helm would reject an existing Lease, and revert the writes of
        # the leader (ADR 25). Its owner removes it with the installation.
        owner = lease_owner(token, namespace)
        self._client = client
        self._folder = f"/apis/{GROUP}/v1/namespaces/{namespace}/{RESOURCE}"
        self._path = f"{self._folder}/{name}"
        self._meta: Json = {"namespace": namespace, "name": name} | ({"ownerReferences": [owner]} if owner else {})

    async def read(self) -> LeaderElectionRecord | None:
        """Return the Lease; None if it does not exist.

        Raises:
            ApiError: the server rejects the request or does not answer.
        """
        try:
            return _record(await self._client.request("GET", self._path, resource=RESOURCE))
        except NotFoundError:
            return None

    async def write(self, record: LeaderElectionRecord) -> LeaderElectionRecord:
        """Create the Lease, or replace the version that `record` names; return it as stored.

        Raises:
            ConflictError: the stored Lease has another version.
            AlreadyExistsError: the Lease to create exists.
            NotFoundError: the Lease to replace has been deleted.
            ApiError: the server rejects the request or does not answer.
        """
        # Each write names the resource version that it replaces: of two concurrent ones, the API server rejects one.
        method, path = ("PUT", self._path) if record.version else ("POST", self._folder)
        body = _manifest(record, self._meta)
        return _record(await self._client.request(method, path, resource=RESOURCE, body=body))


def _record(raw: Mapping[str, Any]) -> LeaderElectionRecord:
    spec = raw.get("spec") or {}
    return LeaderElectionRecord(
        holder=spec.get("holderIdentity") or "",
        duration_seconds=spec.get("leaseDurationSeconds") or 0,
        acquired_at=spec.get("acquireTime") or "",
        renewed_at=spec.get("renewTime") or "",
        transitions=spec.get("leaseTransitions") or 0,
        version=raw["metadata"]["resourceVersion"],
    )


def _manifest(record: LeaderElectionRecord, meta: Mapping[str, Any]) -> Json:
    metadata = dict(meta) | ({"resourceVersion": record.version} if record.version else {})
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": record.duration_seconds,
            "acquireTime": record.acquired_at,
            "renewTime": record.renewed_at,
            "leaseTransitions": record.transitions,
        },
    }
