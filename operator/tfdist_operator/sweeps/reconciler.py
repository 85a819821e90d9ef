"""Reconciles one sweep: gathers its view and makes the plan, in a thread, and executes it (ADR 42).

The requests are idempotent, since the name of a job follows from its trial.
"""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final

from tfdist.api.sweep_resource import trial_name
from tfdist.api.sweep_status import TFDistSweepStatus
from tfdist.planner import Event
from tfdist.sweep_planner import SweepPlan, SweepView, TrialJob, plan_sweep
from tfdist.sweeps.trial import trial_manifest
from tfdist.sweeps.values import trial_count
from tfdist_operator.budget import SLOW_SECONDS, BudgetExceeded, in_thread
from tfdist_operator.cache.job_cache import CachedJob, JobCache
from tfdist_operator.cache.sweep_cache import CachedSweep, ParsedSweep, SweepCache
from tfdist_operator.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    InvalidError,
    JobGoneError,
    NamespaceTerminatingError,
    NotFoundError,
)
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.kube.slow_start import run_each, send_each, slow_start
from tfdist_operator.kube.workqueue import WorkQueue
from tfdist_operator.metrics import SLOW_OBJECTS
from tfdist_operator.requests.resources import ResourceClient
from tfdist_operator.requests.sweep_requests import SweepRequests


@dataclass(frozen=True, slots=True)
class SweepDependencies:
    """Caches, clients and clocks."""

    sweeps: SweepCache
    jobs: JobCache
    queue: WorkQueue[NamespacedName]
    requests: SweepRequests
    resources: ResourceClient
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    clock: Callable[[], float] = time.monotonic
    """In seconds."""


log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 2.0
"""Delay before a job is created again whose name exists and is not in the cache yet."""
_TERMINATING_SECONDS: Final = 60.0
_SET_ASIDE_SECONDS: Final = 300.0
"""Delay before a sweep is planned again whose plan took over a second of CPU time."""


@dataclass(slots=True)
class _Memory:
    """What this process remembers of a sweep; it may be lost at any time."""

    uid: str
    written_at: float = float("-inf")
    """Time of the last write of the status, on the monotonic clock."""
    set_aside_until: float = float("-inf")
    """When it is planned again, because its plan took too long."""
    create_error: str = ""
    rejected: dict[int, str] = field(default_factory=dict)
    """Why the API server rejects the jobs of trials for good."""


class SweepReconciler:
    """Reconciles the sweeps of the cache."""

    def __init__(self, deps: SweepDependencies) -> None:
        self._deps = deps
        self._memories: dict[NamespacedName, _Memory] = {}
        self._thread = ThreadPoolExecutor(1, "sweeps")

    async def reconcile(self, key: NamespacedName) -> bool:
        """Reconcile one sweep; return whether that succeeded. A failure is to be retried later."""
        sweep = self._deps.sweeps.get(key)
        if sweep is None:
            self._memories.pop(key, None)
            return True
        if sweep.deleting:
            return True  # Kubernetes deletes its jobs
        extra = {"sweep": "/".join(key)}
        memory = self._memory(sweep)
        if (remaining := memory.set_aside_until - self._deps.clock()) > 0:
            self._deps.queue.add_after(key, remaining)
            return True
        try:
            what = f"planning of the sweep {'/'.join(key)}"
            # Always in the thread: a plan reads the statuses of all trials, which may be hundreds (ADR 53).
            (read, plan), seconds = await in_thread(self._thread, what, partial(self._plan, sweep, memory))
            if seconds > SLOW_SECONDS:
                self._set_aside(sweep, f"the {what} took {seconds:.1f} s of CPU time")
            await self._execute(sweep, read, plan)
        except BudgetExceeded as error:
            self._set_aside(sweep, str(error))
        except NamespaceTerminatingError:
            self._deps.queue.add_after(key, _TERMINATING_SECONDS)
        except ConflictError:
            log.debug("sweep or job has been written since it was read; reconciled again", extra=extra)
            return False
        except ApiError as error:
            log.warning("reconcile of a sweep failed; retried", extra={**extra, "error": str(error)})
            return False
        return True

    def _memory(self, sweep: CachedSweep) -> _Memory:
        memory = self._memories.get(sweep.key)
        if memory is None or memory.uid != sweep.uid:
            memory = self._memories[sweep.key] = _Memory(sweep.uid)
        return memory

    def _set_aside(self, sweep: CachedSweep, reason: str) -> None:
        """Do not plan a sweep again for some minutes, so that it does not delay others."""
        SLOW_OBJECTS.labels("sweep", "plan").inc()
        self._memory(sweep).set_aside_until = self._deps.clock() + _SET_ASIDE_SECONDS
        self._deps.queue.add_after(sweep.key, _SET_ASIDE_SECONDS)
        text = f"sweep is planned again in {_SET_ASIDE_SECONDS:.0f} s"
        log.warning(text, extra={"sweep": "/".join(sweep.key), "reason": reason})

    def _plan(self, sweep: CachedSweep, memory: _Memory) -> tuple[ParsedSweep, SweepPlan]:
        """Return the parsed sweep, and its plan; runs in the thread."""
        read = self._deps.sweeps.read(sweep)
        return read, plan_sweep(self._view(sweep, read, memory), self._deps.now())

    def _view(self, sweep: CachedSweep, read: ParsedSweep, memory: _Memory) -> SweepView:
        status = sweep.status
        recorded = {result.trial for result in status.results or ()}
        expected = set(range(trial_count(read.sweep.spec))) if read.sweep else set()
        trial_jobs = {trial: job for trial in recorded | expected if (job := self._job(sweep, trial)) is not None}
        # A job of a deleted sweep of the same name is not a trial of this one; it holds the name until Kubernetes has
        # deleted it.
        jobs = {trial: job for trial, job in trial_jobs.items() if not _is_leftover(sweep, job)}
        return SweepView(
            sweep=read.sweep,
            problems=read.problems,
            generation=sweep.generation,
            status=status,
            jobs={trial: _trial_job(sweep, job) for trial, job in jobs.items()},
            leftover=frozenset(trial_jobs.keys() - jobs.keys()),
            written_seconds_ago=self._deps.clock() - memory.written_at,
            create_error=memory.create_error,
            rejected=memory.rejected,
        )

    def _job(self, sweep: CachedSweep, trial: int) -> CachedJob | None:
        return self._deps.jobs.get((sweep.key.namespace, trial_name(sweep.key.name, trial)))

    async def _execute(self, sweep: CachedSweep, read: ParsedSweep, plan: SweepPlan) -> None:
        if plan.status is not None:
            # First, with the resourceVersion that the plan was made from: a stale plan suspends and deletes nothing
            # (ADR 42).
            await self._write(sweep, plan.status)
        for event in plan.events:
            await self._publish(sweep, event)
        # A rejected creation must not keep a stopped trial running.
        await run_each(
            partial(self._create, sweep, read, plan.creates),
            partial(self._set_suspended, sweep, plan.suspends, suspended=True),
            partial(self._set_suspended, sweep, plan.resumes, suspended=False),
            partial(send_each, plan.deletes, partial(self._delete, sweep)),
        )
        if plan.delete_sweep:
            await self._deps.requests.delete_sweep(sweep)
        if plan.requeue_after_seconds is not None:
            self._deps.queue.add_after(sweep.key, plan.requeue_after_seconds)

    async def _write(self, sweep: CachedSweep, status: TFDistSweepStatus) -> None:
        content = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        try:
            response = await self._deps.requests.patch_status(sweep, content)
        except NotFoundError:
            log.info("sweep has been deleted", extra={"sweep": "/".join(sweep.key)})
            self._deps.sweeps.evict(sweep)
            raise ConflictError(404, "NotFound", "the sweep has been deleted") from None
        self._deps.sweeps.upsert(response)
        self._memory(sweep).written_at = self._deps.clock()

    async def _publish(self, sweep: CachedSweep, event: Event) -> None:
        """Publish an event. An event that cannot be stored is only logged: the status records the same facts."""
        fields = {"sweep": "/".join(sweep.key), "reason": event.reason, "note": event.message}
        log.info("event", extra=fields)
        try:
            await self._deps.resources.create_event(sweep, event, self._deps.now())
        except AlreadyExistsError:
            return
        except ApiError as error:
            log.warning("event was not stored", extra={**fields, "error": str(error)})

    async def _create(self, sweep: CachedSweep, read: ParsedSweep, trials: Sequence[int]) -> None:
        """Create the jobs of trials; a rejection is recorded for the status."""
        memory = self._memory(sweep)
        try:
            await slow_start(trials, partial(self._create_job, sweep, read))
        except ApiError as error:
            # Once: a quota that rejects each attempt would cause an immediate reconcile after each.
            if memory.create_error != error.message:
                memory.create_error = error.message
                self._deps.queue.add(sweep.key)  # at once, so that the status reports it
            raise
        if trials:
            memory.create_error = ""
            self._deps.queue.add(sweep.key)  # the status has them then, unless it was written a moment ago

    async def _create_job(self, sweep: CachedSweep, read: ParsedSweep, trial: int) -> None:
        assert read.sweep is not None  # noqa: S101  an invalid sweep creates nothing
        try:
            response = await self._deps.requests.create_job(trial_manifest(read.manifest, read.sweep, trial))
        except AlreadyExistsError:
            self._deps.queue.add_after(sweep.key, _RETRY_SECONDS)
        # For good: the trial fails with this message, and the others go on.
        except InvalidError as error:
            self._memory(sweep).rejected[trial] = error.message
        else:
            self._deps.jobs.upsert(response)

    async def _set_suspended(self, sweep: CachedSweep, trials: Sequence[int], *, suspended: bool) -> None:
        await send_each(trials, partial(self._suspend, sweep, suspended=suspended))

    async def _suspend(self, sweep: CachedSweep, trial: int, *, suspended: bool) -> None:
        job = self._job(sweep, trial)
        if job is None:
            return
        try:
            self._deps.jobs.upsert(await self._deps.requests.set_suspended(job, suspended=suspended))
        except NotFoundError:
            log.debug("job is gone already", extra={"job": "/".join(job.key)})

    async def _delete(self, sweep: CachedSweep, trial: int) -> None:
        job = self._job(sweep, trial)
        if job is None:
            return
        try:
            await self._deps.resources.delete_job(job)
        except JobGoneError:
            log.debug("job is gone already", extra={"job": "/".join(job.key)})


def _is_leftover(sweep: CachedSweep, job: CachedJob) -> bool:
    """Return whether a job belongs to a deleted sweep of the same name."""
    return job.sweep is not None and job.sweep.key == sweep.key and job.sweep.uid != sweep.uid


def _trial_job(sweep: CachedSweep, job: CachedJob) -> TrialJob:
    return TrialJob(
        status=job.status,
        owned=job.sweep is not None and job.sweep.uid == sweep.uid,
        suspended=job.suspended,
        suspended_by_sweep=job.sweep is not None and job.sweep.suspended_job,
        deleting=job.deleting,
    )
