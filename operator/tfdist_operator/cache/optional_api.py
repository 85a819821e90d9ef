"""The watch of an API that not every API server serves: it is started and stopped as discovery finds the API.

Only discovery shows whether an object of the API acts. An API server whose feature gate is off drops the field of a pod
that names its PodGroup without an error, and one whose gate is on without the API keeps such pods pending; the APIs of
other schedulers are served while their definitions are installed.

Only the answer that the API is not there means that it is absent. An error, such as the 403 of an API server that has
just started, means nothing: what was known before stays. Before anything is known, and while the objects cannot be
listed, it is unknown whether the API is served, and no job may start as if it was absent.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tfdist.api.gang_system import Availability
from tfdist_operator.cache.informer import Informer
from tfdist_operator.kube.backoff import RECONNECT
from tfdist_operator.kube.client import ApiClient
from tfdist_operator.kube.errors import ApiError, NotFoundError, RejectedError

log = logging.getLogger(__name__)

_INTERVAL_SECONDS: Final = 30.0
_SYNC_SECONDS: Final = 10.0
"""How long to wait for the first lists before the controller goes on without them."""
_FORBIDDEN: Final = 403

Discovery = Callable[[ApiClient], Awaitable[str]]
"""Returns the served version of an API. Only "" and `NotFoundError` mean that the API is absent; others do not."""


@dataclass(frozen=True, slots=True)
class _Watch:
    """The informers of one version, and the tasks that run them."""

    informers: Sequence[Informer]
    tasks: Sequence[asyncio.Task[None]]

    @property
    def is_synced(self) -> bool:
        """Whether all objects are in the cache."""
        return all(informer.synced.is_set() for informer in self.informers)


class OptionalApi:
    """Watches the objects of an API while the API server serves it: one request each 30 s, and the watches.

    Args:
        client: client of the API server.
        name: of the API, for messages.
        discover: asks which version is served.
        make_informers: returns new informers of that version; an informer is not started twice.
        on_change: is called when `availability` or `version` has changed.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        client: ApiClient,
        name: str,
        discover: Discovery,
        make_informers: Callable[[str], Sequence[Informer]],
        on_change: Callable[[], None],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.name = name
        self._client = client
        self._discover = discover
        self._make_informers = make_informers
        self._on_change = on_change
        self._sleep = sleep
        self._watches: dict[str, _Watch] = {}
        """By version: the watch that is used, and the one that replaces it once its objects are in the cache."""
        self._absences = 0
        """Number of answers in a row that the API is absent."""
        self._reported = ""
        """The last warning; each is logged once."""
        self.availability = Availability.UNKNOWN
        self.version = ""
        """The version that is used; "" unless the API is served."""
        self.answered = asyncio.Event()
        """Set after the first answer of the API server."""

    async def run(self) -> None:
        """Poll discovery, and watch while the API server serves the API."""
        async with asyncio.TaskGroup() as group:
            while True:
                # Only discovery shows whether an object of the API acts: a server without it drops the field of a pod
                # that names its PodGroup without an error.
                version = await self._served_version()
                if version:
                    self._watch(group, version)
                # None is an error, such as the 403 of a server that has just started: it changes nothing (ADR 54).
                elif version is not None:
                    self._lose()
                await self._sleep(_INTERVAL_SECONDS)

    def _watch(self, group: asyncio.TaskGroup, version: str) -> None:
        """Watch a version, and use it once its objects are in the cache."""
        self._absences = 0
        # The version in use stays in use until the next one is in sync. Both write to one cache, which compares
        # resource versions (ADR 54).
        self._stop_except(version, self.version)
        watch = self._watches.get(version)
        if watch is None:
            informers = self._make_informers(version)
            tasks = [group.create_task(informer.run(), name=f"watch {informer.name}") for informer in informers]
            tasks.append(group.create_task(self._use_when_synced(version, informers), name=f"sync {self.name}"))
            self._watches[version] = _Watch(informers, tasks)
        elif watch.is_synced:
            self._use(version)

    async def _use_when_synced(self, version: str, informers: Sequence[Informer]) -> None:
        try:
            async with asyncio.timeout(_SYNC_SECONDS):
                await _wait_until_synced(informers)
        # A list that takes long is waited for and not started again; the replica may lead meanwhile (ADR 54).
        except TimeoutError:
            self._report(
                f"served and not listed within {_SYNC_SECONDS:.0f} s; jobs that need it wait. If the controller may not"
                " list the objects, grant it list and watch on them in all its namespaces (docs/scheduling.md)"
            )
            self.answered.set()
            await _wait_until_synced(informers)
        self._use(version)

    def _use(self, version: str) -> None:
        self._set(Availability.SERVED, version)
        self._stop_except(version)
        self._reported = ""

    def _lose(self) -> None:
        """Stop the watches of an API that is absent; one that was served must be absent twice in a row."""
        self._absences += 1
        # While definitions are replaced, or behind an API server that starts, an API is missing for a moment.
        if self._watches and self._absences == 1:
            self._set(Availability.UNKNOWN)
        else:
            self._stop_except()
            self._set(Availability.ABSENT)

    def _stop_except(self, *versions: str) -> None:
        for version in self._watches.keys() - set(versions):
            for task in self._watches.pop(version).tasks:
                task.cancel()

    def _set(self, availability: Availability, version: str = "") -> None:
        has_changed = (availability, version) != (self.availability, self.version)
        self.availability, self.version = availability, version
        self.answered.set()
        if has_changed:
            log.info("availability has changed", extra={"api": self.name, "now": availability, "version": version})
            self._on_change()

    async def _served_version(self) -> str | None:
        """Return the version that the API server serves, once it answers: "" if it serves none, None for an error."""
        for pause in RECONNECT:
            try:
                return await self._discover(self._client)
            except NotFoundError:
                return ""
            except RejectedError as error:
                remedy = "; the controller needs the ClusterRole system:discovery" if error.code == _FORBIDDEN else ""
                self._report(f"discovery does not show whether it is served; nothing changes: {error}{remedy}")
                self.answered.set()
                return None
            except ApiError as error:
                log.warning("discovery failed; it is repeated", extra={"api": self.name, "error": str(error)})
                await self._sleep(pause)
        raise AssertionError  # RECONNECT never ends

    def _report(self, text: str) -> None:
        if text != self._reported:
            self._reported = text
            log.warning(text, extra={"api": self.name})


async def is_served(client: ApiClient, path: str, plural: str) -> bool:
    """Return whether the API server serves a resource, given the path of its group and version.

    Raises:
        NotFoundError: it does not serve the version.
        ApiError: the request failed.
    """
    document = await client.request("GET", f"/{path}", resource="discovery")
    return any(resource["name"] == plural for resource in document.get("resources") or ())


async def _wait_until_synced(informers: Sequence[Informer]) -> None:
    for informer in informers:
        await informer.synced.wait()
