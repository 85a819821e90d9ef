"""The API calls that the controller makes, by name: the role that it needs is generated beside this list."""

from typing import Any

from tfdist.api.v1 import API_VERSION, GROUP, KIND, PLURAL, VERSION
from tfdist.render.names import JOB_LABEL, JOB_UID_LABEL
from tfdist_operator.kube.client import FIELD_MANAGER, JSON_PATCH, MERGE_PATCH, METADATA_LIST, Client, Json
from tfdist_operator.kube.errors import AlreadyExists, NotFound, Refused
from tfdist_operator.kube.job_store import StoredJob
from tfdist_operator.kube.merge_patch import merge_patch
from tfdist_operator.planner import Event

_REPORTER = "tfdist.dev/controller"
_RESOURCES = {"Deployment": "deployments", "NetworkPolicy": "networkpolicies", "Service": "services"}
_PREFIXES = {"Deployment": "/apis/apps/v1", "NetworkPolicy": "/apis/networking.k8s.io/v1", "Service": "/api/v1"}
_MANAGER = {"fieldManager": FIELD_MANAGER}
_UID_POINTER = f"/metadata/labels/{JOB_UID_LABEL.replace('/', '~1')}"
_UNPROCESSABLE = 422


def _collection(kind: str, namespace: str) -> str:
    within = f"namespaces/{namespace}/" if namespace else ""
    return f"{_PREFIXES[kind]}/{within}{_RESOURCES[kind]}"


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

    async def make(self, manifest: Json, *, known: bool) -> None:
        """Make an object of these kinds what `manifest` says; `known` says that it is probably there.

        Creating and patching cost the API server a fraction of server-side apply.

        Raises:
            Refused: one of that name is there and is not the job's; it is not touched.
        """
        first, second = (self._change, self._create) if known else (self._create, self._change)
        try:
            await first(manifest)
        except (AlreadyExists, NotFound):
            await second(manifest)

    async def _create(self, manifest: Json) -> None:
        path, resource = _collection(manifest["kind"], manifest["metadata"]["namespace"]), _RESOURCES[manifest["kind"]]
        await self._client.request("POST", path, resource=resource, body=manifest, query=_MANAGER)

    async def _change(self, manifest: Json) -> None:
        """Change the fields of `spec` of an object that carries the label of the same job, else of none."""
        kind, meta = manifest["kind"], manifest["metadata"]
        patch: list[Json] = [{"op": "test", "path": _UID_POINTER, "value": meta["labels"][JOB_UID_LABEL]}]
        patch += [{"op": "add", "path": f"/spec/{k}", "value": v} for k, v in manifest["spec"].items()]
        path = f"{_collection(kind, meta['namespace'])}/{meta['name']}"
        try:
            await self._client.request(
                "PATCH", path, resource=_RESOURCES[kind], body=patch, content_type=JSON_PATCH, query=_MANAGER
            )
        except Refused as error:
            if error.code != _UNPROCESSABLE:
                raise
            name = f"{kind} {meta['namespace']}/{meta['name']}"
            text = f"a {name} is there that is not this job's: delete it, or give the job another name"
            raise Refused(error.code, error.reason, f"{text} ({error.message})") from error

    async def left(self, kind: str, namespace: str) -> set[str]:
        """Return the UIDs of the jobs that have a Service or NetworkPolicy in a namespace; "" stands for all."""
        path = _collection(kind, namespace)
        query = {"labelSelector": JOB_LABEL, "limit": "500"}
        uids: set[str] = set()
        while True:
            page = await self._client.request("GET", path, resource=_RESOURCES[kind], query=query, accept=METADATA_LIST)
            uids |= {item["metadata"]["labels"].get(JOB_UID_LABEL, "") for item in page["items"] or ()}
            query["continue"] = page["metadata"].get("continue", "")
            if not query["continue"]:
                return uids

    async def remove(self, kind: str, namespace: str, name: str, job_uid: str) -> None:
        """Delete an object of these kinds, if it is there and the job's own."""
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
