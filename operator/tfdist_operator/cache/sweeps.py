"""The sweeps of the cluster: their watch, if their CRD is installed, and the queue of those to reconcile."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tfdist.api.resource import GROUP
from tfdist.api.sweep_resource import SWEEP_PLURAL, SWEEP_VERSION
from tfdist_operator.cache.informer import Informer, Watched
from tfdist_operator.cache.object_cache import OnChange
from tfdist_operator.cache.optional_api import OptionalApi, is_served
from tfdist_operator.cache.sweep_cache import SweepCache
from tfdist_operator.kube.client import Client
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.kube.workqueue import WorkQueue

_PATH: Final = f"apis/{GROUP}/{SWEEP_VERSION}"
_JOB_SECONDS: Final = 1.0
"""Time in which the changes of the jobs of a sweep are collected: with 500 trials one changes every few ms."""


class Sweeps:
    """The watch of sweeps, and their queue.

    Args:
        client: client of the API server.
        namespaces: those of the controller.
        make_cache: makes the cache of the sweeps, given what is called when one has changed.
        leads: returns whether this replica leads; a standby queues nothing.
    """

    def __init__(
        self,
        client: Client,
        namespaces: Iterable[str],
        make_cache: Callable[[OnChange], SweepCache],
        leads: Callable[[], bool],
    ) -> None:
        self._client = client
        self._namespaces = tuple(namespaces)
        self._leads = leads
        self.queue: WorkQueue[NamespacedName] = WorkQueue()
        self.cache = make_cache(self._on_change)
        self.api = OptionalApi(client, f"{SWEEP_PLURAL}.{GROUP}", _served_version, self._informers, self.enqueue_all)

    def enqueue_all(self) -> None:
        """Enqueue every sweep, if this replica leads."""
        for key in self.cache.every_key():
            self._on_change(key)

    def job_changed(self, key: NamespacedName) -> None:
        """Enqueue the sweep with this key after a short delay: one of its jobs has changed."""
        if self._leads():
            self.queue.add_after(key, _JOB_SECONDS)

    def _on_change(self, key: NamespacedName) -> None:
        if self._leads():
            self.queue.add(key)

    def _informers(self, _version: str) -> Sequence[Informer]:
        watched = [Watched.of(_PATH, SWEEP_PLURAL, namespace) for namespace in self._namespaces]
        return [Informer(self._client, watch, self.cache) for watch in watched]


async def _served_version(client: Client) -> str:
    """Return the version of the sweeps if the API server serves it; "" without it."""
    return SWEEP_VERSION if await is_served(client, _PATH, SWEEP_PLURAL) else ""
