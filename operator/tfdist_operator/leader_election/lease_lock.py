"""The Lease of the leader election, as the API server stores it (coordination.k8s.io/v1).

Each write names the resource version that it replaces: of two concurrent writes, the API server rejects one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tfdist_operator.kube.client import Client, Json
from tfdist_operator.kube.errors import NotFound
from tfdist_operator.leader_election.lease_owner import lease_owner

GROUP: Final = "coordination.k8s.io"
RESOURCE: Final = "leases"


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

    def __init__(self, client: Client, namespace: str, name: str, token: str | None = None) -> None:
        """Set the ServiceAccount of `token`, the controller's, as owner: Kubernetes deletes the Lease with it."""
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
        except NotFound:
            return None

    async def write(self, record: LeaderElectionRecord) -> LeaderElectionRecord:
        """Create the Lease, or replace the version that `record` names; return it as stored.

        Raises:
            Conflict: the stored Lease has another version.
            AlreadyExists: the Lease to create exists.
            NotFound: the Lease to replace has been deleted.
            ApiError: the server rejects the request or does not answer.
        """
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
