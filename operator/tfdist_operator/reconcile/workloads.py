"""Executes the part of a plan that changes the Workload by which Kueue admits the job."""

import logging

from tfdist.planner.plan import WorkloadChange
from tfdist_operator.cache.job_cache import CachedJob
from tfdist_operator.cache.runtime_state import JobRuntimeState
from tfdist_operator.kube.errors import ApiError, ConflictError
from tfdist_operator.reconcile.dependencies import Dependencies

log = logging.getLogger(__name__)


class WorkloadExecutor:
    """Creates, changes and deletes Workloads; each response is stored for the next plan."""

    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps

    async def change(self, job: CachedJob, change: WorkloadChange | None) -> None:
        """Execute the change of a plan.

        Raises:
            ConflictError: the Workload has been written since the plan was made.
            ApiError: the request failed; the view of the next plan includes the error.
        """
        state = self._deps.states.get(job.key, job.uid)
        if change is None:
            self._forget_error(job, state)
            return
        try:
            await self._send(job, change)
        # The Workload has been written since the plan was made, above all by Kueue: the next plan reads it, and the
        # user has nothing to correct.
        except ConflictError:
            raise
        except ApiError as error:
            if state.workload_error != error.message:
                state.workload_error = error.message
                self._deps.queue.add(job.key)  # at once, so that the status reports it
            raise
        self._forget_error(job, state)

    def _forget_error(self, job: CachedJob, state: JobRuntimeState) -> None:
        """Forget the error of the last change, also if its job no longer needs one; the status must not keep it."""
        if state.workload_error:
            state.workload_error = ""
            self._deps.queue.add(job.key)

    async def _send(self, job: CachedJob, change: WorkloadChange) -> None:
        cache, requests = self._deps.kueue.workloads, self._deps.workload_requests
        cached = cache.job_workload(job.key, job.uid)
        if change.manifest is not None:
            if cached is None:
                cache.upsert(await requests.create(change.manifest))
            else:
                # A Workload that waits is replaced and not created again: the job keeps its place in the queue
                # (ADR 38).
                cache.upsert(await requests.replace_spec(change.manifest, cached))
        elif cached is not None and change.status is not None:
            cache.upsert(await requests.patch_status(job.key.namespace, cached, change.status))
        elif cached is not None:
            await requests.delete(job.key.namespace, cached)
