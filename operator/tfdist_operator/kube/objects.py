"""The API calls that the controller makes, by name: the role that it needs is generated beside this list."""

from typing import Any

from tfdist.api.v1 import API_VERSION, GROUP, KIND, PLURAL, VERSION
from tfdist.render.names import JOB_UID_LABEL
from tfdist_operator.kube.client import APPLY_PATCH, FIELD_MANAGER, MERGE_PATCH, Client, Json
from tfdist_operator.kube.job_store import StoredJob
from tfdist_operator.kube.merge_patch import merge_patch
from tfdist_operator.planner import Event

_REPORTER = "tfdist.dev/controller"
_RESOURCES = {"Service": "services", "NetworkPolicy": "networkpolicies"}
_PREFIXES = {"Service": "/api/v1", "NetworkPolicy": "/apis/networking.k8s.io/v1"}


def _collection(kind: str, namespace: str) -> str:
    return f"{_PREFIXES[kind]}/namespaces/{namespace}/{_RESOURCES[kind]}"


NOTE_BYTES = 1024
"""Longest note of an event that the API server takes."""


def _cut(text: str, most_bytes: int) -> str:
    """Return as much of `text` as `most_bytes` of UTF-8 hold, without half a character at its end."""
    return text.encode()[:most_bytes].decode(errors="ignore")


class Objects:
    """Creates, changes and deletes the objects of jobs. Every method raises `ApiError` when it is refused."""

    def __init__(self, client: Client, instance: str) -> None:
        self._client = client
        self._instance = instance

    async def store_status(self, job: StoredJob, status: Json) -> Json:
        """Store the status if nobody has written the job since it was read; return the job as stored."""
        ns, name = job.key
        body = {
            "metadata": {"resourceVersion": str(job.resource_version), "uid": job.uid},
            "status": merge_patch(job.status, status),
        }
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{ns}/{PLURAL}/{name}/status"
        return await self._client.request("PATCH", path, resource=PLURAL, body=body, content_type=MERGE_PATCH)

    async def apply(self, manifest: Json) -> None:
        """Make a Service or NetworkPolicy what `manifest` says; one that is somebody else's is not touched."""
        meta = manifest["metadata"]
        await self._client.request(
            "PATCH",
            f"{_collection(manifest['kind'], meta['namespace'])}/{meta['name']}",
            resource=_RESOURCES[manifest["kind"]],
            body=manifest,
            content_type=APPLY_PATCH,
            query={"fieldManager": FIELD_MANAGER},
        )

    async def remove(self, kind: str, namespace: str, name: str, job_uid: str) -> None:
        """Delete the Service or NetworkPolicy of a job that has ended."""
        path = f"{_collection(kind, namespace)}"
        query = {"labelSelector": f"{JOB_UID_LABEL}={job_uid}", "fieldSelector": f"metadata.name={name}"}
        await self._client.request("DELETE", path, resource=_RESOURCES[kind], query=query)

    async def create_pod(self, manifest: Json) -> Json:
        """Create a pod and return it as stored."""
        path = f"/api/v1/namespaces/{manifest['metadata']['namespace']}/pods"
        return await self._client.request("POST", path, resource="pods", body=manifest)

    async def delete_pod(self, namespace: str, name: str) -> None:
        """Ask for the deletion of a pod; it is gone after its grace period."""
        await self._client.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", resource="pods")

    async def patch_pod(self, namespace: str, name: str, body: Json) -> Json:
        """Change the metadata of a pod and return it as stored."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        return await self._client.request("PATCH", path, resource="pods", body=body, content_type=MERGE_PATCH)

    async def delete_job(self, job: StoredJob) -> None:
        """Delete a job, with all that belongs to it, unless another of its name has been made since."""
        ns, name = job.key
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{ns}/{PLURAL}/{name}"
        body = {"propagationPolicy": "Background", "preconditions": {"uid": job.uid}}
        await self._client.request("DELETE", path, resource=PLURAL, body=body)

    async def publish(self, job: StoredJob, event: Event, now: str) -> None:
        """Publish an event; its name is derived from what it says, so that a repetition is refused as a double."""
        ns, name = job.key
        identity = f"-{event.identity}" if event.identity else ""
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{job.uid[:8]}.{event.reason.lower()}{identity}", "namespace": ns},
            "eventTime": now,
            "reportingController": _REPORTER,
            "reportingInstance": self._instance,
            "action": event.reason,
            "reason": event.reason,
            "type": "Warning" if event.warning else "Normal",
            "note": _cut(event.message, NOTE_BYTES),
            "regarding": {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "namespace": ns,
                "name": name,
                "uid": job.uid,
            },
        }
        path = f"/apis/events.k8s.io/v1/namespaces/{ns}/events"
        await self._client.request("POST", path, resource="events", body=body)
