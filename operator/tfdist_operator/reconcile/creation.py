"""Creates the missing objects of a job, and records a rejection for the status and for the next attempt."""

import logging
from typing import Final

from tfdist.planner import Plan
from tfdist.render.metadata import Manifest
from tfdist_operator.cache.job_cache import CachedJob
from tfdist_operator.kube.errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NamespaceTerminatingError,
    RejectedError,
)
from tfdist_operator.kube.slow_start import slow_start
from tfdist_operator.reconcile.dependencies import Dependencies
from tfdist_operator.reconcile.owned import OwnedExecutor

log = logging.getLogger(__name__)

_FORBIDDEN_SECONDS: Final = 20.0
"""How long a 403 by the authorizer is retried before the status reports it: an API server that has just started
responds with it until it has loaded its roles."""
_REJECTED_SECONDS: Final = 600.0
"""Delay before an invalid pod is created again: the job has not changed, but an admission policy may have."""


class Creator:
    """Creates the Services, NetworkPolicies, Secrets and pods of jobs."""

    def __init__(self, deps: Dependencies, owned: OwnedExecutor) -> None:
        self._deps = deps
        self._owned = owned

    async def create(self, job: CachedJob, plan: Plan) -> None:
        """Create the missing objects. Invalid pods of the same specification are sent again after minutes only.

        Raises:
            RejectedError: to be retried; it is recorded for the status.
            ApiError: another request failed.
        """
        state = self._deps.states.get(job.key, job.uid)
        # An invalid pod stays invalid until its job changes, so that it is not sent with each reconcile; an admission
        # policy may change meanwhile, so that it is sent again after minutes (ADR 19).
        if state.is_rejected(job.generation):
            wait = state.rejected_at + _REJECTED_SECONDS - self._deps.clock()
            if wait > 0:
                self._deps.queue.add_after(job.key, wait)
                return
        try:
            # Before the pods, which need them: the Service gives them their names, and a NetworkPolicy must hold from
            # the start.
            await self._owned.apply(job, plan.objects, at_once=bool(plan.creates))
            if plan.launcher_secret is not None:
                # In the same plan as the pods and before them, so that all pods of a gang share the first key,
                # whichever controller creates them (ADR 32).
                await self._deps.resources.create_secret(plan.launcher_secret)
            await slow_start(plan.creates, self._create_pod)
        # The job is deleted soon. Its status needs no error of the creation.
        except NamespaceTerminatingError:
            raise
        # Not raised: a retry with back-off would send the same invalid pod again (ADR 19).
        except InvalidError as error:
            state.rejected_generation, state.rejected_at = job.generation, self._deps.clock()
            self._deps.queue.add_after(job.key, _REJECTED_SECONDS)
            self._record_create_error(job, error)
            return
        except (RejectedError, ConflictError) as error:
            raise self._retryable(job, error) from error
        if plan.creates:
            # Only a creation that succeeded disproves the error; a plan without pods proves nothing.
            state.create_error, state.forbidden_since, state.rejected_generation = "", None, None

    def _retryable(self, job: CachedJob, error: ApiError) -> RejectedError:
        """Record a rejection that may be temporary; a 403 by the authorizer only after it has persisted."""
        state = self._deps.states.get(job.key, job.uid)
        state.rejected_generation = None
        # A server that has just started answers 403 until it has loaded its roles: a job must not report that.
        if isinstance(error, ForbiddenError):
            if state.forbidden_since is None:
                state.forbidden_since = self._deps.clock()
            if self._deps.clock() - state.forbidden_since > _FORBIDDEN_SECONDS:
                self._record_create_error(job, error)
            return error
        self._record_create_error(job, error)
        return RejectedError(error.code, error.reason, error.message)

    def _record_create_error(self, job: CachedJob, error: ApiError) -> None:
        state = self._deps.states.get(job.key, job.uid)
        if state.create_error != error.message:
            state.create_error = error.message
            self._deps.queue.add(job.key)  # at once, so that the status reports it

    async def _create_pod(self, manifest: Manifest) -> None:
        self._deps.pods.upsert(await self._deps.resources.create_pod(manifest))
