"""The caches of one replica, the watches that feed them, and their comparison with the API server."""

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from tfdist.api.gang_system import Availability, GangSystem
from tfdist.api.resource import GROUP, PLURAL, VERSION
from tfdist.desired.owned_kinds import OWNED_KINDS
from tfdist.render import names
from tfdist.scheduling.choice import GANG_SCHEDULERS
from tfdist.scheduling.kueue import KUEUE
from tfdist_operator.cache.informer import Informer, WatchedResource
from tfdist_operator.cache.job_cache import JobCache
from tfdist_operator.cache.kueue import Kueue
from tfdist_operator.cache.optional_api import OptionalApi
from tfdist_operator.cache.owned_cache import OwnedObjectCache, served_version, watch_owned
from tfdist_operator.cache.pod_cache import PodCache
from tfdist_operator.cache.resync import CacheComparison, Resync
from tfdist_operator.cache.sweep_cache import SweepCache, SweepWatch
from tfdist_operator.config import Config
from tfdist_operator.kopf_adapter.job_watch import JobWatch
from tfdist_operator.kopf_adapter.kopf_session import KopfSession
from tfdist_operator.kube.client import ApiClient
from tfdist_operator.kube.keys import ALL_NAMESPACES, NamespacedName
from tfdist_operator.kube.workqueue import WorkQueue

_JOBS: Final = f"apis/{GROUP}/{VERSION}"


class Caches:
    """Caches of jobs, pods and owned objects. Their changes are enqueued only while this replica leads.

    Args:
        client: of the API server.
        kopf_session: through which kopf watches the jobs.
        settings: of the installation.
    """

    def __init__(self, client: ApiClient, kopf_session: KopfSession, settings: Config) -> None:
        self.namespaces = settings.namespaces or (ALL_NAMESPACES,)
        self.queue: WorkQueue[NamespacedName] = WorkQueue()
        self.leads = False
        pod_defaults, programs = settings.installation.pod_defaults, settings.check_programs
        limit = settings.max_spec_bytes
        make_sweeps = partial(SweepCache, pod_defaults, check_programs=programs, max_spec_bytes=limit)
        self.sweeps = SweepWatch(client, self.namespaces, make_sweeps, lambda: self.leads)
        self.jobs = JobCache(
            pod_defaults,
            check_programs=programs,
            max_spec_bytes=limit,
            on_change=self._enqueue,
            on_trial_change=self.sweeps.on_job_change,
        )
        self.pods = PodCache(self._enqueue, on_progress=self._enqueue_after)
        self.owned = {kind: OwnedObjectCache(kind, self._enqueue) for kind in OWNED_KINDS}
        pods = [(kind, Informer(client, kind, self.pods)) for kind in self._kinds("api/v1", "pods", names.POD_SELECTOR)]
        owned_watches = watch_owned(client, self.namespaces, [c for c in self.owned.values() if not c.kind.optional])
        self._pod_groups = {
            system: self._optional(client, self.owned[scheduler.kind]) for system, scheduler in GANG_SCHEDULERS.items()
        }
        self.kueue = Kueue(client, self.namespaces, self._enqueue, self._enqueue_now)
        self.optional = (*self._pod_groups.values(), self.kueue.api, self.sweeps.api)
        """The watches of APIs that the API server may not serve."""
        self.resync = Resync(
            client,
            [
                CacheComparison(kind, self.jobs, partial(kopf_session.reconnect, kind.namespace))
                for kind in self._kinds(_JOBS, PLURAL)
            ],
            [
                *(CacheComparison(kind, self.pods, informer.reconnect) for kind, informer in pods),
                *(compared for _, compared in owned_watches),
            ],
            self._enqueue_all,
            interval_seconds=settings.resync_seconds,
        )
        self.informers = (*(informer for _, informer in pods), *(informer for informer, _ in owned_watches))
        self.job_watch = JobWatch(kopf_session, self.resync.compare_jobs)
        self.watches: tuple[JobWatch | Informer, ...] = (self.job_watch, *self.informers)

    def lead(self, start_workers: Callable[[], None]) -> None:
        """Enqueue every change from now on, start the workers, and enqueue every job."""
        self.leads = True
        for cache in self.owned.values():
            cache.begin()
        start_workers()
        self._enqueue_now()

    def _kinds(self, group_version: str, plural: str, selector: str = "") -> list[WatchedResource]:
        """Return a watched resource in each namespace of the controller, or in all."""
        return [WatchedResource.for_kind(group_version, plural, namespace, selector) for namespace in self.namespaces]

    def systems(self) -> Mapping[GangSystem, Availability]:
        """Return whether the API server serves the kinds of each gang scheduler."""
        apis = self._pod_groups | {KUEUE.system: self.kueue.api}
        return {system: api.availability for system, api in apis.items()}

    def _optional(self, client: ApiClient, cache: OwnedObjectCache) -> OptionalApi:
        def informers(_version: str) -> list[Informer]:
            return [informer for informer, _ in watch_owned(client, self.namespaces, [cache])]

        return OptionalApi(
            client, cache.kind.resource, partial(served_version, cache.kind), informers, self._enqueue_now
        )

    def _enqueue_now(self) -> None:
        """Enqueue every job, if this replica leads."""
        for job in self.jobs.all():
            self._enqueue(job.key)
        self.sweeps.enqueue_all()

    def _enqueue(self, key: NamespacedName) -> None:
        """Enqueue a changed job; a standby enqueues none, because a new leader enqueues all of them."""
        if self.leads:
            self.queue.add(key)

    def _enqueue_after(self, key: NamespacedName, seconds: float) -> None:
        """Enqueue a changed job after some time, in which more of it may change."""
        if self.leads:
            self.queue.add_after(key, seconds)

    def _enqueue_all(self, seconds: float) -> None:
        """Enqueue every job, spread over `seconds`, and verify the objects that this process has not written."""
        for cache in self.owned.values():
            cache.verify()
        for job in self.jobs.all():
            # Spread over minutes: all jobs at once would delay those that have changed.
            self.queue.add_after(job.key, random.uniform(0, seconds))  # noqa: S311  no secret
        self.sweeps.enqueue_all()
