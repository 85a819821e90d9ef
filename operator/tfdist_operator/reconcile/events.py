"""Kubernetes Events: publishes those of jobs, and reads those of a pod that does not start."""

import logging

from tfdist.observed.job_view import KubeletWarning
from tfdist.planner import Event
from tfdist.planner.unexplained_pod import REREAD_SECONDS
from tfdist_operator.cache.job_cache import CachedJob
from tfdist_operator.kube.errors import AlreadyExistsError, ApiError
from tfdist_operator.metrics import RESTARTS
from tfdist_operator.reconcile.dependencies import Dependencies

log = logging.getLogger(__name__)


class EventPublisher:
    """Publishes events of jobs, and counts the restarts among them."""

    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps

    async def publish(self, job: CachedJob, event: Event) -> None:
        """Publish an event. An event that cannot be stored is only logged: the status records the same facts.

        An event that a pod reports is only logged beyond the job's budget, and a restart also counted: a pod can invent
        them.
        """
        # It is planned until the status records its fact, which may take several reconciles.
        if event.is_reported and self._is_repeated(job, event):
            return
        fields = {"job": "/".join(job.key), "reason": event.reason, "note": event.message}
        log.info("event", extra=fields)
        try:
            # Pods can invent failures with each poll, and every event is a request and an object in etcd (ADR 18).
            if (event.cause or event.is_reported) and not self._has_budget(job):
                log.debug("event is beyond the budget of its job", extra=fields)
                self._count(event)
                return
            await self._deps.resources.create_event(job, event, self._deps.now())
        except AlreadyExistsError:
            return  # counted when it was first published
        except ApiError as error:
            log.warning("event was not stored", extra={**fields, "error": str(error)})
        self._count(event)

    def _has_budget(self, job: CachedJob) -> bool:
        return self._deps.states.get(job.key, job.uid).events.spend(self._deps.clock())

    def _is_repeated(self, job: CachedJob, event: Event) -> bool:
        """Return whether this is the last event that a pod of the job reported, and store it."""
        state, name = self._deps.states.get(job.key, job.uid), f"{event.reason}/{event.identity}"
        previous, state.reported_event = state.reported_event, name
        return previous == name

    @staticmethod
    def _count(event: Event) -> None:
        if event.cause:
            RESTARTS.labels(reason=event.cause).inc()


class PodEventReader:
    """Reads events of pods, with at most one request a minute for each job."""

    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps

    async def read(self, job: CachedJob, name: str) -> None:
        """Read the newest warning of a pod. An error is only logged: the job starts without it."""
        state, pod = self._deps.states.get(job.key, job.uid), self._deps.pods.find(job.key, job.uid, name)
        if pod is None or self._deps.clock() - state.pod_events_read_at < REREAD_SECONDS:
            return
        # Before the request: one that fails counts against the limit too.
        state.pod_events_read_at = self._deps.clock()
        try:
            text = await self._deps.resources.newest_warning(job.key.namespace, pod.uid)
        except ApiError as error:
            log.warning("events of a pod were not read", extra={"job": "/".join(job.key), "error": str(error)})
            return
        warning = KubeletWarning(pod.uid, text) if text else None
        if warning != state.kubelet_warning:
            state.kubelet_warning = warning
            self._deps.queue.add(job.key)  # at once, so that the status reports it
