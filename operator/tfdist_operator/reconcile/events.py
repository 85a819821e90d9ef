"""Publishes events of jobs."""

import logging

from tfdist.planner import Event
from tfdist_operator.cache.job_cache import CachedJob
from tfdist_operator.kube.errors import AlreadyExists, ApiError
from tfdist_operator.metrics import RESTARTS
from tfdist_operator.reconcile.dependencies import Dependencies

log = logging.getLogger(__name__)


class Publisher:
    """Publishes events, and counts the restarts among them."""

    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps

    async def publish(self, job: CachedJob, event: Event) -> None:
        """Publish an event. An event that cannot be stored is only logged: the status has the same facts.

        An event that a pod reports is only logged beyond the job's budget, and a restart also counted: a pod can invent
        them.
        """
        if event.is_reported and self._is_repeated(job, event):
            return
        fields = {"job": "/".join(job.key), "reason": event.reason, "note": event.message}
        log.info("event", extra=fields)
        try:
            if (event.cause or event.is_reported) and not self._has_budget(job):
                log.debug("event is beyond the budget of its job", extra=fields)
                self._count(event)
                return
            await self._deps.resources.create_event(job, event, self._deps.now())
        except AlreadyExists:
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
