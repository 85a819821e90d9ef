"""The watch of a kind that not every API server serves: it is started and stopped as discovery finds the kind.

Only discovery shows whether a PodGroup acts. An API server whose feature gate is off drops the field of a pod that
names its PodGroup without an error, and one whose gate is on without the API keeps such pods pending; the PodGroups of
other schedulers are served while their definitions are installed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tfdist.render.owned_kinds import OwnedKind
from tfdist_operator.kube.backoff import RECONNECT
from tfdist_operator.kube.client import Client
from tfdist_operator.kube.errors import ApiError, NotFound, Rejected
from tfdist_operator.kube.informer import Informer

log = logging.getLogger(__name__)

_INTERVAL_SECONDS: Final = 30.0
_SYNC_SECONDS: Final = 10.0
"""Time limit of the first list; without rights on the kind it never comes."""


class OptionalKindWatch:
    """Watches the objects of one kind while the API server serves it: one request each 30 s, and the watch.

    Args:
        client: client of the API server.
        kind: the kind.
        make_informers: returns new informers of the cache of the kind; an informer is not started twice.
        on_change: is called when `served` has changed.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        client: Client,
        kind: OwnedKind,
        make_informers: Callable[[], Sequence[Informer]],
        on_change: Callable[[], None],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.kind = kind
        self._client = client
        self._make_informers = make_informers
        self._on_change = on_change
        self._sleep = sleep
        self.served = False
        """Whether the kind is served and its cache is in sync."""
        self.checked = asyncio.Event()
        """Set after the first answer of the API server."""

    async def run(self) -> None:
        """Ask the API server again and again, and watch while it serves the kind."""
        while True:
            if await self._is_served() and not await self._watch():
                log.warning("served and cannot be listed; not used", extra={"resource": self.kind.resource})
            self._set(served=False)
            await self._sleep(_INTERVAL_SECONDS)

    async def _watch(self) -> bool:
        """Watch until the kind is no longer served; return whether they could be listed."""
        informers = self._make_informers()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(informer.run(), name=f"watch {informer.what}") for informer in informers]
            synced = await _all_synced(informers)
            if synced:
                self._set(served=True)
                while await self._is_served():
                    await self._sleep(_INTERVAL_SECONDS)
            for task in tasks:
                task.cancel()
        return synced

    def _set(self, *, served: bool) -> None:
        changed, self.served = served != self.served, served
        self.checked.set()
        if changed:
            log.info("served" if served else "no longer served", extra={"resource": self.kind.resource})
            self._on_change()

    async def _is_served(self) -> bool:
        """Return whether the API server serves the kind, once it answers."""
        for pause in RECONNECT:
            try:
                found = await self._client.request("GET", f"/{self.kind.path}", resource="discovery")
            except (NotFound, Rejected):
                return False
            except ApiError as error:
                context = {"resource": self.kind.resource, "error": str(error)}
                log.warning("discovery failed; it is repeated", extra=context)
                await self._sleep(pause)
            else:
                return any(resource["name"] == self.kind.plural for resource in found.get("resources") or ())
        raise AssertionError  # RECONNECT never ends


async def _all_synced(informers: Sequence[Informer]) -> bool:
    """Return whether the first lists of all informers come in time."""
    try:
        async with asyncio.timeout(_SYNC_SECONDS):
            for informer in informers:
                await informer.synced.wait()
    except TimeoutError:
        return False
    return True
