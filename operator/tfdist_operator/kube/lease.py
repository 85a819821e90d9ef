"""The Lease that says which replica leads, as the API server stores it (coordination.k8s.io/v1).

The version of the record that a change was made from goes with the change: of two replicas that want the Lease at the
same time, the API server refuses one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tfdist_operator.kube.client import Client, Json
from tfdist_operator.kube.errors import NotFound

GROUP: Final = "coordination.k8s.io"
RESOURCE: Final = "leases"


@dataclass(frozen=True, slots=True)
class Record:
    """A stored Lease. Times are RFC 3339 with microseconds, by the clock of whoever wrote them."""

    holder: str
    """Who leads; "" when the last leader has given the Lease up."""
    duration_seconds: int
    acquired_at: str
    renewed_at: str
    transitions: int
    """How often the leader has changed."""
    version: str = ""
    """resourceVersion; "" for a Lease that is not stored yet."""


class Lease:
    """One Lease by its namespace and name."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._folder = f"/apis/{GROUP}/v1/namespaces/{namespace}/{RESOURCE}"
        self._path = f"{self._folder}/{name}"
        self._meta = {"namespace": namespace, "name": name}

    async def read(self) -> Record | None:
        """Return the Lease, or None where there is none.

        Raises:
            ApiError: the server refused or does not answer.
        """
        try:
            return _record(await self._client.request("GET", self._path, resource=RESOURCE))
        except NotFound:
            return None

    async def write(self, record: Record) -> Record:
        """Create the Lease, or replace the version that `record` names; return it as stored.

        Raises:
            Conflict: somebody has written it since.
            AlreadyExists: somebody has created it since.
            NotFound: somebody has deleted it since.
            ApiError: the server refused or does not answer.
        """
        method, path = ("PUT", self._path) if record.version else ("POST", self._folder)
        body = _manifest(record, self._meta)
        return _record(await self._client.request(method, path, resource=RESOURCE, body=body))


def _record(raw: Mapping[str, Any]) -> Record:
    spec = raw.get("spec") or {}
    return Record(
        holder=spec.get("holderIdentity") or "",
        duration_seconds=spec.get("leaseDurationSeconds") or 0,
        acquired_at=spec.get("acquireTime") or "",
        renewed_at=spec.get("renewTime") or "",
        transitions=spec.get("leaseTransitions") or 0,
        version=raw["metadata"]["resourceVersion"],
    )


def _manifest(record: Record, meta: Mapping[str, str]) -> Json:
    versioned = dict(meta) | ({"resourceVersion": record.version} if record.version else {})
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Lease",
        "metadata": versioned,
        "spec": {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": record.duration_seconds,
            "acquireTime": record.acquired_at,
            "renewTime": record.renewed_at,
            "leaseTransitions": record.transitions,
        },
    }
