"""Executes the plan of one job: status, events, objects, pods, deletions, in this order (ADR 3)."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from tfdist.desired.pods import Patch
from tfdist.observed.job_view import ProbeResult
from tfdist.planner import Plan
from tfdist.render.metadata import Manifest
from tfdist.timestamps import parse_time
from tfdist_operator.cache.job_cache import CachedJob
from tfdist_operator.kube.errors import ConflictError, NotFoundError
from tfdist_operator.kube.slow_start import run_each, send_each
from tfdist_operator.metrics import JOB_DURATION
from tfdist_operator.reconcile.creation import Creator
from tfdist_operator.reconcile.dependencies import Dependencies
from tfdist_operator.reconcile.events import EventPublisher, PodEventReader
from tfdist_operator.reconcile.owned import OwnedExecutor, TensorBoardExecutor
from tfdist_operator.reconcile.status_writer import StatusWriter
from tfdist_operator.reconcile.workloads import WorkloadExecutor

log = logging.getLogger(__name__)


class Executor:
    """Executes plans by requests to the API server. Every method raises `ApiError` if a request fails."""

    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps
        self._events = EventPublisher(deps)
        self._status = StatusWriter(deps, self._events)
        self._owned = OwnedExecutor(deps, self._events)
        self._creator = Creator(deps, self._owned)
        self._pod_events = PodEventReader(deps)
        self._tensorboards = TensorBoardExecutor(deps, self._owned, self._events)
        self._workloads = WorkloadExecutor(deps)

    async def execute(self, job: CachedJob, plan: Plan) -> None:
        """Execute `plan` for `job`.

        Raises:
            ConflictError: the job has been written since the plan was made; nothing has been done.
            JobGoneError: the job has been deleted.
            ApiError: a request failed; the next plan has the remaining actions.
        """
        state = self._deps.states.get(job.key, job.uid)
        if plan.status is not None:
            # First, with the resourceVersion that the plan was made from: if the job has been written since, the API
            # server answers 409, and a stale plan creates and deletes nothing (ADR 3). A controller that is killed
            # after this finds the attempt recorded before any of its pods exists.
            await self._status.write(job, plan.status, settled=plan.settled)
            _observe_duration(job, plan.status)
        # After the write: a plan whose status was rejected as stale leaves no trace, and is made again.
        state.completed, state.failure_seen_at = plan.completed, plan.failure_seen_at
        state.leader, state.evaluator = plan.leader, plan.evaluator
        # Before the requests that may fail: the next plan finds the facts in the status, and has no events of them
        # (ADR 19).
        for event in plan.events:
            await self._events.publish(job, event)
        # One action that fails stops no other: what the API server or a webhook rejects must not keep a pod of an ended
        # attempt alive. All are idempotent, because every name is deterministic.
        await run_each(
            partial(self._creator.create, job, plan),
            partial(send_each, plan.patches, partial(self._patch, job)),
            partial(send_each, plan.deletes, partial(self._delete, job)),
            partial(self._tensorboards.update, job, plan),
            partial(self._owned.remove, job, plan.obsolete),
            partial(self._workloads.change, job, plan.workload),
            partial(self._finish, job, plan),
        )

    async def _finish(self, job: CachedJob, plan: Plan) -> None:
        """Execute the actions of a plan that follow its objects."""
        if plan.delete_job:
            await self._deps.resources.delete_job(job)
        if plan.probes:
            self._deps.diagnosis.start(job.key, plan.probe_id, plan.probes, partial(self._store_diagnosis, job))
        if plan.unexplained_pod:
            await self._pod_events.read(job, plan.unexplained_pod)
        if plan.requeue_after_seconds is not None:
            self._deps.queue.add_after(job.key, plan.requeue_after_seconds)

    def _store_diagnosis(self, job: CachedJob, result: ProbeResult) -> None:
        """Store the result of a diagnosis for the next plan, unless the job has been deleted meanwhile."""
        # A diagnosis takes seconds, in which the job may have been replaced by another one of its name.
        now = self._deps.jobs.get(job.key)
        if now is not None and now.uid == job.uid:
            self._deps.states.get(job.key, job.uid).probe_result = result
            self._deps.queue.add(job.key)

    async def _patch(self, job: CachedJob, patch: Patch) -> None:
        await self._change_pod(job, patch.pod, partial(self._deps.resources.patch_pod, body=patch.body))

    async def _delete(self, job: CachedJob, name: str) -> None:
        await self._change_pod(job, name, self._deps.resources.delete_pod)

    async def _change_pod(
        self, job: CachedJob, name: str, request: Callable[[str, str, str], Awaitable[Manifest]]
    ) -> None:
        """Send a request for a pod, given by namespace, name and UID; the response is stored for the next plan."""
        pod = self._deps.pods.find(job.key, job.uid, name)
        if pod is None:
            return
        try:
            response = await request(job.key.namespace, name, pod.uid)
        # The request names the UID of the planned pod (ADR 19): a conflict means another pod of that name, which this
        # plan does not concern.
        except (NotFoundError, ConflictError):
            log.debug("pod is gone already", extra={"pod": name})
        else:
            # Without a version, the response is only the status of a deletion that is complete: the watch reports it.
            if "resourceVersion" in response.get("metadata", {}):
                self._deps.pods.upsert(response)


def _observe_duration(job: CachedJob, status: Manifest) -> None:
    """Observe the duration of a job whose end has just been stored."""
    if "completionTime" in status and job.status.completion_time is None and job.created_at:
        age = parse_time(status["completionTime"]) - parse_time(job.created_at)
        JOB_DURATION.labels(result=status["phase"]).observe(age.total_seconds())
