"""Reconciles one job: builds its view, plans, executes the plan, and classifies errors."""

import logging
import secrets
from dataclasses import replace
from typing import Final

from tfdist.observed.job_view import Contention, JobView
from tfdist.observed.kueue import KueueView
from tfdist.planner import Plan, plan
from tfdist.render.installation import Installation
from tfdist.render.workload import queue_name
from tfdist.timestamps import rfc3339
from tfdist_operator.cache.job_cache import CachedJob
from tfdist_operator.kube.errors import ApiError, Conflict, JobGone, NamespaceTerminating
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.metrics import RECONCILE_SECONDS
from tfdist_operator.reconcile.dependencies import Dependencies
from tfdist_operator.reconcile.executor import Executor
from tfdist_operator.replica_reports.poll_rate import PollRate

log = logging.getLogger(__name__)

_TERMINATING_SECONDS: Final = 60.0
"""Delay of the next reconcile of a job in a terminating namespace: by then it is deleted, or stuck for long."""


class Reconciler:
    """Reconciles the jobs of the cache."""

    def __init__(self, deps: Dependencies, installation: Installation, rate: PollRate) -> None:
        self._deps = deps
        self._installation = installation
        self._rate = rate
        self._executor = Executor(deps)

    async def reconcile(self, key: NamespacedName) -> bool:
        """Reconcile one job; return whether that succeeded. A failure is to be retried later."""
        position = await self._position(key)
        job, removed = self._deps.jobs.get(key), self._deps.pods.removed(key)
        if job is None:
            self._deps.states.evict(key)
            self._deps.pods.forget_removed(key, removed)
            return True
        try:
            with RECONCILE_SECONDS.time():
                await self._executor.execute(job, self._plan(job, position))
            self._forget_removed(key, removed)
        except JobGone:
            log.info("job has been deleted", extra={"job": "/".join(key)})
            self._deps.jobs.evict(job)
            self._deps.states.evict(key)
        except NamespaceTerminating:
            log.info("namespace is terminating; its job is not reconciled", extra={"job": "/".join(key)})
            self._deps.queue.add_after(key, _TERMINATING_SECONDS)
        except Conflict:
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

    async def _position(self, key: NamespacedName) -> int | None:
        """Return the position of a job in its queue; None if it does not wait in one, or if it is not known."""
        job, kueue = self._deps.jobs.get(key), self._deps.kueue
        cached = kueue.workloads.of_job(key, job.uid) if job and kueue.version else None
        if job is None or job.job is None or cached is None or not cached.waits:
            return None
        return await kueue.positions.position((key.namespace, queue_name(job.job)), cached.name)

    def _plan(self, job: CachedJob, position: int | None) -> Plan:
        view, now = self._view(job, position), self._deps.now()
        try:
            return plan(view, now, self._installation)
        except Exception:
            # Suspend, deadlines and restarts do not depend on reports of the program: plan without them.
            text = "planning failed with an unexpected error; planned again without reports"
            log.exception(text, extra={"job": "/".join(job.key)})
            return plan(_without_reports(view), now, self._installation)

    def _view(self, job: CachedJob, position: int | None) -> JobView:
        state = self._deps.states.get(job.key, job.uid)
        state.observed_since = state.observed_since or rfc3339(self._deps.now())
        return JobView(
            stored=job,
            status=job.status,
            runtime=state,
            pods=self._deps.pods.of_job(job.key, job.uid),
            throttled_seconds=self._rate.throttled_seconds(state.status_written_at, self._deps.clock()),
            launcher_key=secrets.token_hex(32),
            directory_users=self._deps.jobs.directory_users(job),
            served_systems=self._deps.served_systems(),
            kueue=self._kueue(job, position, state.workload_error),
            contention=self._contention(job),
        )

    def _kueue(self, job: CachedJob, position: int | None, error: str) -> KueueView | None:
        kueue = self._deps.kueue
        if not kueue.version:
            return None
        return KueueView(kueue.workloads.of_job(job.key, job.uid), kueue.flavors.by_name(), position, error)

    def _contention(self, job: CachedJob) -> Contention:
        """Return which other jobs wait for nodes, if this one does."""
        keys = self._deps.pods.unschedulable()
        if job.key not in keys:
            return Contention()
        others = [other for other in map(self._deps.jobs.get, keys) if other is not None and other.uid != job.uid]
        return Contention(len(others), all(job.is_older_than(other) for other in others))


def _without_reports(view: JobView) -> JobView:
    """Return the view without the untrusted content of programs in the job's pods."""
    pods = tuple(replace(pod, message="") for pod in view.pods)
    runtime = replace(view.runtime, report=None, evaluated=None, cadence=None, probe_result=None)
    return replace(view, runtime=runtime, pods=pods)
