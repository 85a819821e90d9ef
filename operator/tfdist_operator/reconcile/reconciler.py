"""Reconciles one job: builds its view, plans, executes the plan, and classifies errors.

A job that is expensive to plan, by its large specification or by its last plan, has a queue and a thread of its own:
jobs of other tenants are reconciled meanwhile. One that takes over a second is set aside for minutes.
"""

import copy
import logging
import secrets
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final

from tfdist.observed.job_view import Contention, JobView
from tfdist.planner import Event, Plan, plan
from tfdist.reasons import EventReason
from tfdist.render.installation import Installation
from tfdist.scheduling.kueue import KueueView, queue_name
from tfdist.timestamps import rfc3339
from tfdist_operator.budget import BUDGET, SLOW_SECONDS, BudgetExceeded, in_thread
from tfdist_operator.cache.job_cache import CachedJob
from tfdist_operator.kube.errors import ApiError, ConflictError, JobGoneError, NamespaceTerminatingError
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.metrics import RECONCILE_SECONDS, SLOW_OBJECTS
from tfdist_operator.reconcile.dependencies import Dependencies
from tfdist_operator.reconcile.events import EventPublisher
from tfdist_operator.reconcile.executor import Executor
from tfdist_operator.replica_reports.poller import PollRate

log = logging.getLogger(__name__)

_TERMINATING_SECONDS: Final = 60.0
"""Delay of the next reconcile of a job in a terminating namespace: by then it is deleted, or stuck for long."""


_EXPENSIVE_SECONDS: Final = 0.05
"""CPU time of a plan after which the job is planned in a thread."""
_SET_ASIDE: Final = 60.0
"""A job whose plan took over a second of CPU time is planned again after this multiple of that time."""
_LONGEST_SET_ASIDE_SECONDS: Final = 600.0
_LOCATION_SECONDS: Final = 1.0
"""Delay of a job that waits until another one, which may write to its directories, has been read."""

Run = Callable[[str, Callable[[], Any]], Awaitable[tuple[Any, float]]]
"""`Budget.run` in this thread or in another one."""


class Reconciler:
    """Reconciles the jobs of the cache."""

    def __init__(self, deps: Dependencies, installation: Installation, rate: PollRate) -> None:
        self._deps = deps
        self._installation = installation
        self._rate = rate
        self._executor = Executor(deps)
        self._events = EventPublisher(deps)
        self._thread = ThreadPoolExecutor(1, "expensive jobs")
        self._in_thread: set[NamespacedName] = set()

    async def reconcile(self, key: NamespacedName) -> bool:
        """Reconcile one job; return whether that succeeded. A failure is to be retried later.

        An expensive job is only moved to its queue.
        """
        job = self._deps.jobs.get(key)
        if job is None:
            return self._forget(key)
        state = self._deps.states.get(key, job.uid)
        # Checked before the queue is chosen: the timers and events of a job that is set aside must not wake it
        # (ADR 53).
        if (remaining := state.set_aside_until - self._deps.clock()) > 0:
            self._deps.queue.add_after(key, remaining)
        # A thread costs each plan some 0.1 ms, a tenth of its time: only what is expensive to parse or has been
        # expensive to plan leaves the main loop, and what is in the thread stays there until it ends (ADR 53).
        elif job.large or job.older_texts or state.plan_seconds > _EXPENSIVE_SECONDS or key in self._in_thread:
            self._deps.expensive.add(key)
        # Jobs with small specifications wait for large ones too: which directories those write is not known until they
        # are read (ADR 31).
        elif not self._waits_for_locations(job):
            return await self._reconcile(job, _run_inline)
        return True

    async def reconcile_expensive(self, key: NamespacedName) -> bool:
        """Reconcile an expensive job, planned in the thread; return whether that succeeded."""
        job = self._deps.jobs.get(key)
        if job is None:
            return self._forget(key)
        # A timer in the ordinary queue reconciles it again.
        if self._deps.states.get(key, job.uid).set_aside_until > self._deps.clock():
            return True
        run = partial(in_thread, self._thread)
        self._in_thread.add(key)
        try:
            read = await self._read(job, run)
            return self._waits_for_locations(read) or await self._reconcile(read, run)
        except BudgetExceeded as error:
            await self._set_aside(job, _LONGEST_SET_ASIDE_SECONDS, str(error))
            return True
        finally:
            self._in_thread.discard(key)

    async def _read(self, job: CachedJob, run: Run) -> CachedJob:
        """Return a job with its specification; its directories are known to its plan and to other jobs from then on.

        Raises:
            BudgetExceeded: it takes too long; other jobs do not wait for its directories any more.
        """
        read: CachedJob = job
        try:
            read, _ = await run(f"parsing of the job {'/'.join(job.key)}", partial(self._deps.jobs.read, job))
        finally:
            # Also after an error: other jobs must not wait for ever for the directories of one that cannot be read.
            self._deps.jobs.locate(read)
        return read

    def _waits_for_locations(self, job: CachedJob) -> bool:
        """Return whether a job waits for jobs to be read that may write into its directories, and request that."""
        unlocated = self._deps.jobs.unlocated_jobs(job.key.namespace) if job.written else []
        for other in unlocated:
            self._deps.expensive.add(other.key)
        if unlocated:
            self._deps.queue.add_after(job.key, _LOCATION_SECONDS)
        return bool(unlocated)

    def _forget(self, key: NamespacedName) -> bool:
        self._deps.states.evict(key)
        self._deps.pods.forget_removed(key, self._deps.pods.removed_uids(key))
        return True

    async def _reconcile(self, job: CachedJob, run: Run) -> bool:
        """Reconcile a job with its specification; `run` makes the plan."""
        key = job.key
        # Before the view is made: the rest, up to the plan, runs without a pause in which the caches could change.
        position = await self._position(job)
        # Before the plan: a pod that is deleted meanwhile is not in its view, and must not be forgotten.
        removed = self._deps.pods.removed_uids(key)
        self._deps.queue.begin(key)
        try:
            with RECONCILE_SECONDS.time():
                await self._executor.execute(job, await self._plan(job, position, run))
            self._forget_removed(key, removed)
        # A write got 404 before the watch has reported the deletion: a later reconcile would repeat the request.
        except JobGoneError:
            log.info("job has been deleted", extra={"job": "/".join(key)})
            self._deps.jobs.evict(job)
            self._deps.states.evict(key)
        # Every creation is rejected until the namespace is gone; a retry with back-off would ask again and again.
        except NamespaceTerminatingError:
            log.info("namespace is terminating; its job is not reconciled", extra={"job": "/".join(key)})
            self._deps.queue.add_after(key, _TERMINATING_SECONDS)
        except BudgetExceeded as error:
            await self._set_aside(job, _LONGEST_SET_ASIDE_SECONDS, str(error))
        except ConflictError:
            log.debug("job has been written since it was read; reconciled again", extra={"job": "/".join(key)})
            return False
        except ApiError as error:
            log.warning("reconcile failed; retried", extra={"job": "/".join(key), "error": str(error)})
            return False
        except Exception:
            log.exception("reconcile failed with an unexpected error", extra={"job": "/".join(key)})
            return False
        return True

    def _forget_removed(self, key: NamespacedName, removed: frozenset[str]) -> None:
        """Remove the deleted pods that this reconcile has observed from the cache, and reconcile again without them."""
        if removed:
            self._deps.pods.forget_removed(key, removed)
            self._deps.queue.add(key)

    async def _position(self, job: CachedJob) -> int | None:
        """Return the position of a job in its queue; None if it does not wait in one, or if it is not known."""
        kueue = self._deps.kueue
        cached = kueue.workloads.job_workload(job.key, job.uid) if kueue.version else None
        if job.job is None or cached is None or not cached.waits:
            return None
        return await kueue.positions.position((job.key.namespace, queue_name(job.job)), cached.name)

    async def _plan(self, job: CachedJob, position: int | None, run: Run) -> Plan:
        """Return the plan for a job.

        Raises:
            BudgetExceeded: it takes too long.
        """
        view, now = self._view(job, position), self._deps.now()
        # The poller changes the state while a thread plans.
        if run is not _run_inline:
            view = replace(view, runtime=copy.copy(view.runtime))
        what = f"planning of the job {'/'.join(job.key)}"
        try:
            made, seconds = await run(what, partial(plan, view, now, self._installation))
        except BudgetExceeded:
            raise
        except Exception:
            # Suspension, deadlines and restarts do not depend on reports of the program, which may be hostile: the job
            # is planned without them (ADR 18).
            text = "planning failed with an unexpected error; planned again without reports"
            log.exception(text, extra={"job": "/".join(job.key)})
            made, seconds = await run(what, partial(plan, _without_reports(view), now, self._installation))
        self._deps.states.get(job.key, job.uid).plan_seconds = seconds
        # A job that is this slow once is slow each time: it must not delay the others of its queue (ADR 53).
        if seconds > SLOW_SECONDS:
            await self._set_aside(job, seconds * _SET_ASIDE, f"the {what} took {seconds:.1f} s of CPU time")
        result: Plan = made
        return result

    async def _set_aside(self, job: CachedJob, seconds: float, reason: str) -> None:
        """Do not plan a job again for some minutes, so that it does not delay others."""
        delay = min(seconds, _LONGEST_SET_ASIDE_SECONDS)
        SLOW_OBJECTS.labels("job", "plan").inc()
        self._deps.states.get(job.key, job.uid).set_aside_until = self._deps.clock() + delay
        self._deps.queue.add_after(job.key, delay)
        text = f"{reason}; the job is planned again in {delay:.0f} s. Make its specification smaller"
        await self._events.publish(job, Event(EventReason.SET_ASIDE, text, warning=True, identity=str(job.generation)))

    def _view(self, job: CachedJob, position: int | None) -> JobView:
        state = self._deps.states.get(job.key, job.uid)
        state.observed_since = state.observed_since or rfc3339(self._deps.now())
        return JobView(
            stored=job,
            status=job.status,
            runtime=state,
            pods=self._deps.pods.job_pods(job.key, job.uid),
            throttled_seconds=self._rate.throttled_seconds(state.status_written_at, self._deps.clock()),
            launcher_key=secrets.token_hex(32),
            directory_user=self._deps.jobs.directory_user(job),
            systems=self._deps.systems(),
            kueue=self._kueue(job, position, state.workload_error),
            contention=self._contention(job),
        )

    def _kueue(self, job: CachedJob, position: int | None, error: str) -> KueueView | None:
        kueue = self._deps.kueue
        if not kueue.version:
            return None
        return KueueView(kueue.workloads.job_workload(job.key, job.uid), kueue.flavors.placements(), position, error)

    def _contention(self, job: CachedJob) -> Contention:
        """Count the other jobs that wait for nodes, if this one does."""
        keys = self._deps.pods.unschedulable_jobs()
        if job.key not in keys:
            return Contention()
        # The UID excludes this job; one that is deleted while its pods remain is in no cache.
        others = [other for other in map(self._deps.jobs.get, keys) if other is not None and other.uid != job.uid]
        return Contention(len(others), all(job.is_older_than(other) for other in others))


async def _run_inline(what: str, function: Callable[[], Any]) -> tuple[Any, float]:
    return BUDGET.run(what, function)


def _without_reports(view: JobView) -> JobView:
    """Return the view without the untrusted content of programs in the job's pods."""
    pods = tuple(replace(pod, message="") for pod in view.pods)
    runtime = replace(view.runtime, report=None, evaluated=None, cadence=None, probe_result=None)
    return replace(view, runtime=runtime, pods=pods)
