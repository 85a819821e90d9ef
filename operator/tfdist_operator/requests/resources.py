"""The requests for jobs, pods, Secrets and events; `permissions` lists the rights that they need."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, ClassVar, Final, Protocol

from tfdist.api.resource import GROUP, PLURAL, VERSION
from tfdist.planner import Event
from tfdist.render import names
from tfdist.timestamps import rfc3339
from tfdist_operator.cache.job_cache import CachedJob
from tfdist_operator.kube.client import MERGE_PATCH, METADATA, ApiClient
from tfdist_operator.kube.errors import (
    AlreadyExistsError,
    JobGoneError,
    NameTakenError,
    NotFoundError,
    UnavailableError,
)
from tfdist_operator.kube.json_bodies import Json, list_items, merge_patch
from tfdist_operator.kube.keys import NamespacedName

_REPORTER = "tfdist.dev/controller"
_CREATIONS = 3
"""Maximum number of attempts to create a pod whose name is taken, and free again when it is read."""


NOTE_BYTES = 1024
"""Maximum length of an event's message that the API server accepts."""


_MAX_EVENTS = 50
"""Maximum number of events of a pod that are read; repetitions are one event."""
Raw = Mapping[str, Any]
_IDENTITY: Final = (
    names.MANAGED_BY_LABEL,
    names.JOB_LABEL,
    names.JOB_UID_LABEL,
    names.ROLE_LABEL,
    names.INDEX_LABEL,
    names.ATTEMPT_LABEL,
)


def _event_time(event: Json) -> str:
    """Return when an event was last observed, in either of its formats."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def _truncate(text: str, most_bytes: int) -> str:
    """Return `text`, cut to `most_bytes` of UTF-8 at the end of a character."""
    return text.encode()[:most_bytes].decode(errors="ignore")


@contextmanager
def _raise_job_gone() -> Iterator[None]:
    """Raise `JobGoneError` for the 404 of a job. A 404 without a reason means that the kind is not served."""
    try:
        yield
    except NotFoundError as error:
        # The kind is not served, for example while its CRD is replaced: the job may still be stored.
        if error.reason != "NotFound":
            raise
        raise JobGoneError(error.code, error.reason, error.message) from error


class Involved(Protocol):
    """The object that an event is about: a job or a sweep."""

    api_version: ClassVar[str]
    kind: ClassVar[str]

    @property
    def key(self) -> NamespacedName:
        """Its namespace and name."""

    @property
    def uid(self) -> str:
        """Its UID."""


class ResourceClient:
    """Creates, changes and deletes the objects of jobs. Every method raises `ApiError` if the request fails."""

    def __init__(self, client: ApiClient, instance: str) -> None:
        self._client = client
        self._instance = instance

    async def patch_status(self, job: CachedJob, stored: Json, status: Json) -> Json:
        """Store the status if the job has not changed since it was read; return the job as stored.

        Raises:
            JobGoneError: the job has been deleted.
            ConflictError: the job has changed since.
        """
        ns, name = job.key
        body = {
            "metadata": {"resourceVersion": str(job.resource_version), "uid": job.uid},
            "status": merge_patch(stored, status),
        }
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{ns}/{PLURAL}/{name}/status"
        with _raise_job_gone():
            return await self._client.request("PATCH", path, resource=PLURAL, body=body, content_type=MERGE_PATCH)

    async def create_pod(self, manifest: Json) -> Json:
        """Create a pod and return it as stored, or the existing pod if the same attempt of this job has created it.

        Raises:
            NameTakenError: a pod of that name exists and is not this replica's; it is not changed.
            InvalidError: the API server rejects the pod permanently.
        """
        ns, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        path = f"/api/v1/namespaces/{ns}/pods"
        # The pod of that name may be deleted between the rejection and the list: the name is free then.
        for _ in range(_CREATIONS):
            try:
                return await self._client.request("POST", path, resource="pods", body=manifest)
            except AlreadyExistsError as error:
                # A list of one object: the role has no right to get pods (ADR 19).
                query = {"fieldSelector": f"metadata.name={name}"}
                page = await self._client.request("GET", path, resource="pods", query=query)
                for item in list_items(page):
                    # The response to an earlier creation was lost, or the cache is behind: the pod is the one that was
                    # wanted (ADR 19).
                    if is_same_replica(item, manifest):
                        return dict(item)
                    raise NameTakenError(error.code, error.reason, name_conflict_message(item)) from error
        raise UnavailableError(409, "AlreadyExists", f"pod {ns}/{name} was there and was gone, {_CREATIONS} times")

    async def create_secret(self, manifest: Json) -> None:
        """Create a Secret; one of that name is left as it is, because the role has no right to read or change it."""
        path = f"/api/v1/namespaces/{manifest['metadata']['namespace']}/secrets"
        # The first key is the right one: pods that run have it (ADR 32).
        with suppress(AlreadyExistsError):
            await self._client.request("POST", path, resource="secrets", body=manifest, accept=METADATA)

    async def delete_pod(self, namespace: str, name: str, uid: str) -> Json:
        """Request the deletion of a pod and return it as stored; it terminates within its grace period.

        Raises:
            ConflictError: the pod of that name has another UID.
        """
        path, body = f"/api/v1/namespaces/{namespace}/pods/{name}", {"preconditions": {"uid": uid}}
        return await self._client.request("DELETE", path, resource="pods", body=body)

    async def patch_pod(self, namespace: str, name: str, uid: str, body: Json) -> Json:
        """Change a pod and return it as stored.

        Raises:
            ConflictError: the pod of that name has another UID.
        """
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        patch = body | {"metadata": body.get("metadata", {}) | {"uid": uid}}
        return await self._client.request("PATCH", path, resource="pods", body=patch, content_type=MERGE_PATCH)

    async def delete_job(self, job: CachedJob) -> None:
        """Delete a job and its owned objects, unless another of its name has been created since.

        Raises:
            JobGoneError: it has been deleted already.
        """
        ns, name = job.key
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{ns}/{PLURAL}/{name}"
        body = {"propagationPolicy": "Background", "preconditions": {"uid": job.uid}}
        with _raise_job_gone():
            await self._client.request("DELETE", path, resource=PLURAL, body=body)

    async def newest_warning(self, namespace: str, pod_uid: str) -> str:
        """Return the newest warning event of a pod as `REASON: MESSAGE`; "" without one.

        The cause of a failed mount comes before the kubelet's summary that volumes are not mounted in time.
        """
        query = {"fieldSelector": f"involvedObject.uid={pod_uid},type=Warning", "limit": str(_MAX_EVENTS)}
        path = f"/api/v1/namespaces/{namespace}/events"
        page = await self._client.request("GET", path, resource="events", query=query)
        warnings = [(str(e.get("message") or ""), e) for e in list_items(page)]
        # The cause of a failed mount counts more than a newer summary of the kubelet, which names no cause.
        newest = max(
            warnings,
            key=lambda candidate: (candidate[0].startswith("MountVolume"), _event_time(candidate[1])),
            default=None,
        )
        return f"{newest[1].get('reason', '')}: {' '.join(newest[0].split())}"[:NOTE_BYTES] if newest else ""

    async def create_event(self, involved: Involved, event: Event, now: datetime) -> None:
        """Create an event; its name is derived from its content, so that a repetition is rejected as a duplicate.

        It is created by the API group "": `events.k8s.io` rejects an event with `lastTimestamp`, by which tools and
        `kubectl get events --sort-by=.lastTimestamp` sort. Both groups serve it.
        """
        ns, name = involved.key
        identity = f"-{event.identity}" if event.identity else ""
        seconds = rfc3339(now)
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{involved.uid[:8]}.{event.reason.lower()}{identity}", "namespace": ns},
            "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "firstTimestamp": seconds,
            "lastTimestamp": seconds,
            "count": 1,
            "reportingComponent": _REPORTER,
            "reportingInstance": self._instance,
            "action": event.reason,
            "reason": event.reason,
            "type": "Warning" if event.warning else "Normal",
            "message": _truncate(event.message, NOTE_BYTES),
            "involvedObject": {
                "apiVersion": involved.api_version,
                "kind": involved.kind,
                "namespace": ns,
                "name": name,
                "uid": involved.uid,
            },
        }
        await self._client.request("POST", f"/api/v1/namespaces/{ns}/events", resource="events", body=body)


def is_same_replica(existing: Raw, desired: Raw) -> bool:
    """Return whether a stored pod runs the replica of the job's attempt that the pod `desired` is to run."""
    existing_labels, desired_labels = existing["metadata"].get("labels") or {}, desired["metadata"]["labels"]
    return all(existing_labels.get(name) == desired_labels[name] for name in _IDENTITY)


def name_conflict_message(existing: Raw) -> str:
    """Return a message: the existing pod, its owner, and the remedy."""
    meta = existing["metadata"]
    text = f"pod {meta['namespace']}/{meta['name']} is there and belongs to {_holder(meta)}"
    if "deletionTimestamp" in meta:
        return f"{text}; it is being deleted, and creation follows"
    return f"{text}: delete it, or give the job another name"


def _holder(meta: Raw) -> str:
    owner = next((o for o in meta.get("ownerReferences") or () if o.get("controller")), None)
    job = (meta.get("labels") or {}).get(names.JOB_LABEL)
    if job is not None:
        return "an earlier TFDistJob of this name" if meta["name"].startswith(f"{job}-") else f"TFDistJob {job}"
    return f"{owner['kind']} {owner['name']}" if owner else "nothing that manages it"
