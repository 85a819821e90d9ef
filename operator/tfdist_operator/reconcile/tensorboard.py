"""Applies the TensorBoard of a job. A rejection here does not affect the job itself."""

import logging
from typing import Final

from tfdist.planner import Event, Plan
from tfdist.reasons import EventReason
from tfdist_operator.cache.job_cache import CachedJob
from tfdist_operator.kube.errors import ApiError, Conflict, NamespaceTerminating, NotLeading, Rejected
from tfdist_operator.reconcile.dependencies import Dependencies
from tfdist_operator.reconcile.events import Publisher
from tfdist_operator.reconcile.owned import OwnedExecutor

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 20.0
"""Delay before a rejected TensorBoard is retried; a new specification is applied at once."""


class TensorBoards:
    """Applies the TensorBoards of jobs."""

    def __init__(self, deps: Dependencies, owned: OwnedExecutor, events: Publisher) -> None:
        self._deps = deps
        self._owned = owned
        self._events = events

    async def update(self, job: CachedJob, plan: Plan) -> None:
        """Apply the TensorBoard of a plan; retry later if that fails.

        Raises:
            NamespaceTerminating: the namespace is terminating.
            NotLeading: this replica is no longer the leader.
        """
        if not plan.tensorboard:
            return
        state = self._deps.states.get(job.key, job.uid)
        previous_error = state.tensorboard_error
        wait = state.tensorboard_retry_at - self._deps.clock()
        if previous_error is not None and previous_error[0] == job.generation and wait > 0:
            self._deps.queue.add_after(job.key, wait)
            return
        try:
            await self._owned.apply(job, plan.tensorboard, at_once=False)
        except (NamespaceTerminating, NotLeading):
            raise
        except ApiError as error:
            await self._record_error(job, error)
        else:
            state.tensorboard_error = None

    async def _record_error(self, job: CachedJob, error: ApiError) -> None:
        """Record a rejection; publish it if it is new and needs a change by the user."""
        state, failure = self._deps.states.get(job.key, job.uid), (job.generation, error.message)
        log.warning("TensorBoard was not applied", extra={"job": "/".join(job.key), "error": str(error)})
        if isinstance(error, Rejected | Conflict) and state.tensorboard_error != failure:
            text = f"spec.tensorBoard: rejected by the API server: {error.message}"
            event = Event(EventReason.TENSORBOARD_REJECTED, text, warning=True, identity=str(job.generation))
            await self._events.publish(job, event)
        state.tensorboard_error = failure
        state.tensorboard_retry_at = self._deps.clock() + _RETRY_SECONDS
        self._deps.queue.add_after(job.key, _RETRY_SECONDS)
