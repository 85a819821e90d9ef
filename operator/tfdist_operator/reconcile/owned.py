"""Applies the owned objects of a plan other than pods: creates, repairs and removes them.

The plan names every object at every reconcile; an object without drift in the cache costs no request. A repair waits
for a second, so that the objects of a job that is being deleted are not created again, and each further one twice as
long: two clients that insist on different content do not overwrite each other as fast as they can.
"""

import logging
from collections.abc import Sequence
from typing import Final

from tfdist.desired.objects import ObjectName
from tfdist.planner import Event
from tfdist.reasons import EventReason
from tfdist.render.metadata import Manifest
from tfdist.render.owned_kinds import kind_of
from tfdist_operator.cache.job_cache import CachedJob
from tfdist_operator.cache.owned_cache import Drift, stamped
from tfdist_operator.cache.runtime_state import JobRuntimeState
from tfdist_operator.kube.backoff import Backoff
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.metrics import REPAIRS
from tfdist_operator.reconcile.dependencies import Dependencies
from tfdist_operator.reconcile.events import Publisher

log = logging.getLogger(__name__)

REPAIR: Final = Backoff(1.0, 600.0, jitter=0.0)


class OwnedExecutor:
    """Executes the part of plans about owned objects. Both methods raise `ApiError` if a request fails.

    Args:
        deps: caches, clients and clocks.
        events: publishes repairs.
    """

    def __init__(self, deps: Dependencies, events: Publisher) -> None:
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
        for manifest in (stamped(manifest, self._deps.controller) for manifest in manifests):
            await self._warn_of_another(job, state, manifest)
            drift = self._deps.owned[kind_of(manifest)].drift(manifest, job.uid)
            repair = _is_repair(state, manifest, drift)
            drifts += [(manifest, drift, repair)] if drift is not Drift.NONE else []
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
            if cached is not None and cached.owner_uid == job.uid and not cached.deleting:
                await self._deps.owned_requests.delete(name.kind, cached)
                cache.evict(cached)

    def _must_wait(self, key: NamespacedName, state: JobRuntimeState) -> bool:
        """Return whether it is too early for a repair; the job is requeued for the time of the repair."""
        now = self._deps.clock()
        if now - state.repaired_at > REPAIR.max_seconds:
            state.repairs = 0
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

    async def _warn_of_another(self, job: CachedJob, state: JobRuntimeState, manifest: Manifest) -> None:
        """Publish once for each job that another controller reconciles it, too."""
        other = self._deps.owned[kind_of(manifest)].other_controller(manifest)
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
    if drift is Drift.MISSING:
        return last_applied is not None
    return drift is Drift.FOREIGN_CHANGE and last_applied in (None, desired)


def _name(manifest: Manifest) -> ObjectName:
    return ObjectName(kind_of(manifest), manifest["metadata"]["name"])
