"""Applies the owned objects of a plan other than pods, the TensorBoard included: creates, repairs and removes them.

The plan names every object at every reconcile; an object without drift in the cache costs no request (ADR 21).
"""

import logging
from collections.abc import Sequence
from typing import Final

from tfdist.desired.objects import ObjectName
from tfdist.desired.owned_kinds import kind_of
from tfdist.planner import Event, Plan
from tfdist.reasons import EventReason
from tfdist.render.metadata import Manifest
from tfdist_operator.cache.job_cache import CachedJob
from tfdist_operator.cache.owned_cache import Drift, stamp
from tfdist_operator.cache.runtime_state import JobRuntimeState
from tfdist_operator.kube.backoff import Backoff
from tfdist_operator.kube.errors import (
    ApiError,
    ConflictError,
    NamespaceTerminatingError,
    NotLeadingError,
    RejectedError,
)
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.metrics import REPAIRS
from tfdist_operator.reconcile.dependencies import Dependencies
from tfdist_operator.reconcile.events import EventPublisher

log = logging.getLogger(__name__)

REPAIR: Final = Backoff(1.0, 600.0, jitter=0.0)
_RETRY_SECONDS: Final = 20.0
"""Delay before a rejected TensorBoard is retried; a new specification is applied at once."""


class OwnedExecutor:
    """Executes the part of plans about owned objects. Both methods raise `ApiError` if a request fails.

    Args:
        deps: caches, clients and clocks.
        events: publishes repairs.
    """

    def __init__(self, deps: Dependencies, events: EventPublisher) -> None:
        self._deps = deps
        self._events = events

    async def apply(self, job: CachedJob, manifests: Sequence[Manifest], *, at_once: bool) -> None:
        """Make the objects match their manifests.

        Args:
            job: their owner.
            manifests: every wanted object.
            at_once: whether pods that need the objects are created next; a repair does not wait then.
        """
        state = self._deps.states.get(job.key, job.uid)
        drifts = []
        for manifest in (stamp(manifest, self._deps.controller) for manifest in manifests):
            await self._warn_about_other_controller(job, state, manifest)
            drift = self._deps.owned[kind_of(manifest)].drift(manifest, job.uid)
            repair = _is_repair(state, manifest, drift)
            drifts += [(manifest, drift, repair)] if drift is not Drift.NONE else []
        # A repair waits for a second, in which the deletion of the job may arrive: its objects are deleted before it,
        # and must not be created again (ADR 21). Pods that are about to be created cannot wait.
        is_late = False
        if any(repair for _, _, repair in drifts) and not at_once:
            is_late = self._must_wait(job.key, state)
        for manifest, drift, repair in drifts:
            if not (repair and is_late):
                await self._apply(state, manifest, drift)
                if repair:
                    await self._report(job, manifest, drift)

    async def _apply(self, state: JobRuntimeState, manifest: Manifest, drift: Drift) -> None:
        cache, meta = self._deps.owned[kind_of(manifest)], manifest["metadata"]
        cached = None if drift is Drift.MISSING else cache.get((meta["namespace"], meta["name"]))
        cache.write_through(await self._deps.owned_requests.apply(manifest, cached))
        state.applied[_name(manifest)] = meta["labels"]

    async def remove(self, job: CachedJob, objects: Sequence[ObjectName]) -> None:
        """Delete the objects of these names that exist and that the job owns."""
        state = self._deps.states.get(job.key, job.uid)
        for name in objects:
            cache = self._deps.owned[name.kind]
            cached = cache.get((job.key.namespace, name.name))
            state.applied.pop(name, None)
            # The owner reference decides (ADR 21): an object of that name that another client has created is not
            # deleted.
            if cached is not None and cached.owner_uid == job.uid and not cached.deleting:
                await self._deps.owned_requests.delete(name.kind, cached)
                cache.evict(cached)

    def _must_wait(self, key: NamespacedName, state: JobRuntimeState) -> bool:
        """Return whether it is too early for a repair; the job is requeued for the time of the repair."""
        now = self._deps.clock()
        # After a time without repairs the next one is the first again.
        if now - state.repaired_at > REPAIR.max_seconds:
            state.repairs = 0
        # Each further repair waits twice as long: two clients that insist on different content must not overwrite each
        # other as fast as they can.
        if state.repair_due is None:
            state.repair_due = now + REPAIR.seconds(state.repairs + 1)
        if state.repair_due > now:
            self._deps.queue.add_after(key, state.repair_due - now)
            return True
        state.repair_due, state.repaired_at = None, now
        state.repairs += 1
        return False

    async def _report(self, job: CachedJob, manifest: Manifest, drift: Drift) -> None:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        REPAIRS.labels(kind=kind).inc()
        change = "deleted; it is created again" if drift is Drift.MISSING else "changed; it is changed back"
        text = f"the {kind} {name} was {change}"
        await self._events.publish(job, Event(EventReason.REPAIRED, text, identity=f"{kind}.{name}".lower()))

    async def _warn_about_other_controller(self, job: CachedJob, state: JobRuntimeState, manifest: Manifest) -> None:
        """Publish, once for each job, that another controller reconciles it too."""
        other = self._deps.owned[kind_of(manifest)].other_controller(manifest)
        # Once for each job: the finding holds for as long as both controllers run.
        if not other or state.other_controller_reported == other:
            return
        state.other_controller_reported = other
        text = (
            f"another controller acts on this job too: {other}, in addition to {self._deps.controller}"
            " (each named by its Lease); let each namespace belong to one controller (`namespaces` of the chart),"
            " or uninstall one"
        )
        log.warning("two controllers act on one namespace", extra={"job": "/".join(job.key), "other": other})
        await self._events.publish(job, Event(EventReason.MULTIPLE_CONTROLLERS, text, warning=True))


def _is_repair(state: JobRuntimeState, manifest: Manifest, drift: Drift) -> bool:
    """Return whether a difference is due to another client, and not to new labels of the job."""
    last_applied, desired = state.applied.get(_name(manifest)), manifest["metadata"]["labels"]
    # What this process has never applied is created, not repaired.
    if drift is Drift.MISSING:
        return last_applied is not None
    # Labels of the job that have changed since show as drift in the metadata; the job has caused it.
    return drift is Drift.FOREIGN_CHANGE and last_applied in (None, desired)


def _name(manifest: Manifest) -> ObjectName:
    return ObjectName(kind_of(manifest), manifest["metadata"]["name"])


class TensorBoardExecutor:
    """Applies the TensorBoards of jobs."""

    def __init__(self, deps: Dependencies, owned: OwnedExecutor, events: EventPublisher) -> None:
        self._deps = deps
        self._owned = owned
        self._events = events

    async def update(self, job: CachedJob, plan: Plan) -> None:
        """Apply the TensorBoard of a plan; retry later if that fails.

        Raises:
            NamespaceTerminatingError: the namespace is terminating.
            NotLeadingError: this replica is no longer the leader.
        """
        if not plan.tensorboard:
            return
        state = self._deps.states.get(job.key, job.uid)
        previous_error = state.tensorboard_error
        wait = state.tensorboard_retry_at - self._deps.clock()
        # A new specification may be what corrects the rejected one: it does not wait.
        if previous_error is not None and previous_error[0] == job.generation and wait > 0:
            self._deps.queue.add_after(job.key, wait)
            return
        try:
            await self._owned.apply(job, plan.tensorboard, at_once=False)
        # These concern the whole job and not its TensorBoard.
        except (NamespaceTerminatingError, NotLeadingError):
            raise
        # Training does not depend on the TensorBoard: its rejection must not fail the reconcile of the job.
        except ApiError as error:
            await self._record_error(job, error)
        else:
            state.tensorboard_error = None

    async def _record_error(self, job: CachedJob, error: ApiError) -> None:
        """Record a rejection; publish it if it is new and needs a change by the user."""
        state, failure = self._deps.states.get(job.key, job.uid), (job.generation, error.message)
        log.warning("TensorBoard was not applied", extra={"job": "/".join(job.key), "error": str(error)})
        # Other errors pass by themselves, and their author is not the user.
        if isinstance(error, RejectedError | ConflictError) and state.tensorboard_error != failure:
            text = f"spec.tensorBoard: rejected by the API server: {error.message}"
            event = Event(EventReason.TENSORBOARD_REJECTED, text, warning=True, identity=str(job.generation))
            await self._events.publish(job, event)
        state.tensorboard_error = failure
        state.tensorboard_retry_at = self._deps.clock() + _RETRY_SECONDS
        self._deps.queue.add_after(job.key, _RETRY_SECONDS)
