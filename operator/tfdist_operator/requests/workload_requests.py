"""The requests for the Workloads by which Kueue admits jobs, and for their priorities."""

from collections.abc import Callable
from typing import Final

from tfdist.render.names import JOB_UID_LABEL, PRIORITY_CLASS_ANNOTATION, SPEC_HASH_LABEL
from tfdist.scheduling.kueue import GROUP, KUEUE_PRIORITY_CLASSES, PLURAL, POD_PRIORITY_CLASSES, WorkloadSummary
from tfdist_operator.kube.client import MERGE_PATCH, ApiClient
from tfdist_operator.kube.errors import AlreadyExistsError, ConflictError, NameTakenError, NotFoundError, RejectedError
from tfdist_operator.kube.json_bodies import Json, list_items

_PRIORITY_CLASSES: Final = f"/apis/scheduling.k8s.io/v1/{POD_PRIORITY_CLASSES}"
_MISSING: Final = 404


class WorkloadRequests:
    """Creates, changes and deletes Workloads. Every method raises `ApiError` if a request fails.

    Args:
        client: client of the API server.
        version: returns the served version of Kueue's API that is used, such as `v1beta2`.
    """

    def __init__(self, client: ApiClient, version: Callable[[], str]) -> None:
        self._client = client
        self._version = version

    async def create(self, manifest: Json) -> Json:
        """Create a Workload and return it as stored.

        Args:
            manifest: the Workload without its version and priority.

        Raises:
            NameTakenError: one of that name exists and is not the job's.
            RejectedError: its priority class does not exist, or Kueue rejects it.
        """
        meta = manifest["metadata"]
        body = await self._complete(manifest)
        try:
            return await self._client.request("POST", self._path(meta["namespace"]), resource=PLURAL, body=body)
        except AlreadyExistsError as error:
            query = {"fieldSelector": f"metadata.name={meta['name']}"}
            page = await self._client.request("GET", self._path(meta["namespace"]), resource=PLURAL, query=query)
            for item in list_items(page):
                if (item["metadata"].get("labels") or {}).get(JOB_UID_LABEL) == meta["labels"][JOB_UID_LABEL]:
                    return dict(item)
            text = f"a Workload {meta['name']} is there that is not this job's; delete it"
            raise NameTakenError(error.code, error.reason, text) from error

    async def replace_spec(self, manifest: Json, cached: WorkloadSummary) -> Json:
        """Replace the specification of a Workload; one that holds quota gets another priority alone.

        A Workload that waits keeps its place in the queue.

        Raises:
            ConflictError: it has changed since `cached` was read.
            RejectedError: its priority class does not exist, or Kueue rejects the change.
        """
        meta, spec = manifest["metadata"], (await self._complete(manifest))["spec"]
        changes: Json = {"annotations": meta["annotations"]}
        # While quota is reserved, Kueue rejects other pod sets, and accepts another priority at any time (ADR 38).
        if cached.holds_quota:
            spec = {"priority": spec["priority"]}
        else:
            changes["labels"] = {SPEC_HASH_LABEL: meta["labels"][SPEC_HASH_LABEL]}
        patch = {"metadata": _guard(cached) | changes, "spec": spec}
        return await self._patch(f"{self._path(meta['namespace'])}/{cached.name}", patch)

    async def patch_status(self, namespace: str, cached: WorkloadSummary, status: Json) -> Json:
        """Change the status of a Workload.

        Raises:
            ConflictError: it has changed since `cached` was read.
        """
        path = f"{self._path(namespace)}/{cached.name}/status"
        return await self._patch(path, {"metadata": _guard(cached), "status": status})

    async def delete(self, namespace: str, cached: WorkloadSummary) -> None:
        """Delete a Workload; do nothing if it is already deleted or replaced."""
        body = {"propagationPolicy": "Background", "preconditions": {"uid": cached.uid}}
        try:
            await self._client.request("DELETE", f"{self._path(namespace)}/{cached.name}", resource=PLURAL, body=body)
        except (NotFoundError, ConflictError):
            return

    async def _patch(self, path: str, body: Json) -> Json:
        return await self._client.request("PATCH", path, resource=PLURAL, body=body, content_type=MERGE_PATCH)

    async def _complete(self, manifest: Json) -> Json:
        """Return a Workload with its version and with its priority: the value of its class, as Kueue needs it."""
        version = f"{GROUP}/{self._version()}"
        # Kueue's core does not resolve the class, and its API of pending Workloads fails for the whole queue if a
        # Workload has no priority (ADR 38).
        plural, _, name = manifest["metadata"]["annotations"][PRIORITY_CLASS_ANNOTATION].partition("/")
        path = f"/apis/{version}/{plural}" if plural == KUEUE_PRIORITY_CLASSES else _PRIORITY_CLASSES
        priority = await self._value(path, name)
        return manifest | {"apiVersion": version, "spec": manifest["spec"] | {"priority": priority}}

    async def _value(self, path: str, name: str) -> int:
        """Return the value of a priority class; without a name, the value of the default of the cluster."""
        plural = path.rpartition("/")[2]
        page = await self._client.request("GET", path, resource=plural)
        for item in list_items(page):
            if item["metadata"]["name"] == name if name else item.get("globalDefault"):
                return int(item["value"])
        if not name:
            return 0
        text = f"priority class {name} ({plural}) does not exist; create it, or choose another one"
        raise RejectedError(_MISSING, "NotFound", text)

    def _path(self, namespace: str) -> str:
        return f"/apis/{GROUP}/{self._version()}/namespaces/{namespace}/{PLURAL}"


def _guard(cached: WorkloadSummary) -> Json:
    """Return metadata with which the API server rejects a change if the object has another version."""
    return {"uid": cached.uid, "resourceVersion": str(cached.resource_version)}
