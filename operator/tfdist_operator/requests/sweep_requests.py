"""The controller's requests for sweeps and the jobs of their trials."""

from typing import Final

from pydantic_core import from_json

from tfdist.api.resource import GROUP, PLURAL, VERSION
from tfdist.api.sweep_resource import SUSPENDED_BY_SWEEP, SWEEP_PLURAL, SWEEP_VERSION
from tfdist_operator.cache.job_cache import CachedJob
from tfdist_operator.cache.sweep_cache import CachedSweep
from tfdist_operator.kube.client import MERGE_PATCH, ApiClient
from tfdist_operator.kube.json_bodies import Json, merge_patch

_JOBS: Final = f"/apis/{GROUP}/{VERSION}/namespaces/{{}}/{PLURAL}"
_SWEEPS: Final = f"/apis/{GROUP}/{SWEEP_VERSION}/namespaces/{{}}/{SWEEP_PLURAL}"


class SweepRequests:
    """Requests to the API server. Every method raises `ApiError` if the request fails."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def patch_status(self, sweep: CachedSweep, status: Json) -> Json:
        """Store the status if the sweep has not changed since it was read; return the sweep as stored.

        Raises:
            NotFoundError: the sweep has been deleted.
            ConflictError: the sweep has changed since.
        """
        body = {
            "metadata": {"resourceVersion": str(sweep.resource_version), "uid": sweep.uid},
            "status": merge_patch(from_json(sweep.status_json), status),
        }
        path = f"{_SWEEPS.format(sweep.key.namespace)}/{sweep.key.name}/status"
        return await self._client.request("PATCH", path, resource=SWEEP_PLURAL, body=body, content_type=MERGE_PATCH)

    async def delete_sweep(self, sweep: CachedSweep) -> None:
        """Delete a sweep with all its jobs, unless another of its name has been made since."""
        body = {"propagationPolicy": "Background", "preconditions": {"uid": sweep.uid}}
        path = f"{_SWEEPS.format(sweep.key.namespace)}/{sweep.key.name}"
        await self._client.request("DELETE", path, resource=SWEEP_PLURAL, body=body)

    async def create_job(self, manifest: Json) -> Json:
        """Create the job of a trial and return it as stored.

        Raises:
            AlreadyExistsError: a job of that name exists; the watch reports whose it is.
            InvalidError: the API server rejects the job for good.
        """
        path = _JOBS.format(manifest["metadata"]["namespace"])
        return await self._client.request("POST", path, resource=PLURAL, body=manifest)

    async def set_suspended(self, job: CachedJob, *, suspended: bool) -> Json:
        """Suspend the job of a trial, or resume it, and return it as stored.

        Raises:
            ConflictError: the job of that name has another UID.
            NotFoundError: it has been deleted.
        """
        # By this mark a sweep resumes only the jobs that it has suspended itself, and none that a user has (ADR 42).
        annotation = {SUSPENDED_BY_SWEEP: "true" if suspended else None}
        body = {
            "metadata": {"uid": job.uid, "annotations": annotation},
            "spec": {"runPolicy": {"suspend": suspended}},
        }
        path = f"{_JOBS.format(job.key.namespace)}/{job.key.name}"
        return await self._client.request("PATCH", path, resource=PLURAL, body=body, content_type=MERGE_PATCH)
