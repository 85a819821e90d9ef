"""Publishes events of jobs."""

import logging

from tfdist.planner import Event
from tfdist_operator.kube.errors import AlreadyExists, ApiError
from tfdist_operator.kube.job_cache import CachedJob
from tfdist_operator.metrics import RESTARTS
from tfdist_operator.reconcile.dependencies import Dependencies

log = logging.getLogger(__name__)


class Publisher:
    """Publishes events, and counts the restarts among them."""

    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps

    async def publish(self, job: CachedJob, event: Event) -> None:
        """Publish an event. An event that cannot be stored is only logged: the status has the same facts.

        An event of a restart beyond the job's budget is only counted: launchers report restarts, and a pod can invent
        them.
        """
        fields = {"job": "/".join(job.key), "reason": event.reason, "note": event.message}
        log.info("event", extra=fields)
        try:
            if event.cause and not self._deps.states.get(job.key, job.uid).events.spend(self._deps.clock()):
                log.debug("event is beyond the budget of its job", extra=fields)
                RESTARTS.labels(reason=event.cause).inc()
                return
            await self._deps.resources.create_event(job, event, self._deps.now())
        except AlreadyExists:
            return  # counted when it was first published
        except ApiError as error:
            log.warning("event was not stored", extra={**fields, "error": str(error)})
        if event.cause:
            RESTARTS.labels(reason=event.cause).inc()
