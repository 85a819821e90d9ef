"""The watch of PodGroups, which not every API server serves: it is started and stopped as discovery finds the API.

An API server whose feature gate is off drops the field of a pod that names its PodGroup without an error, and one whose
gate is on without the API keeps such pods pending: only discovery shows whether a PodGroup acts.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tfdist.render.pod_group import KIND
from tfdist_operator.kube.backoff import RECONNECT
from tfdist_operator.kube.client import Client
from tfdist_operator.kube.errors import ApiError, NotFound, Rejected
from tfdist_operator.kube.informer import Informer
from tfdist_operator.kube.owned_requests import PLURALS, group_version

log = logging.getLogger(__name__)

_INTERVAL_SECONDS: Final = 30.0
_SYNC_SECONDS: Final = 10.0
"""Time limit of the first list; without rights on PodGroups it never comes."""


class PodGroupWatch:
    """Watches PodGroups while the API server serves them.

    Args:
        client: client of the API server.
        make_informers: returns new informers of the cache of PodGroups; an informer is not started twice.
        on_change: is called when `served` has changed.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        client: Client,
        make_informers: Callable[[], Sequence[Informer]],
        on_change: Callable[[], None],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._make_informers = make_informers
        self._on_change = on_change
        self._sleep = sleep
        self.served = False
        """Whether PodGroups are served and their cache is in sync."""
        self.checked = asyncio.Event()
        """Set after the first answer of the API server."""

    async def run(self) -> None:
        """Ask the API server again and again, and watch while it serves PodGroups."""
        while True:
            if await self._is_served() and not await self._watch():
                log.warning("PodGroups are served and cannot be listed; gangs are scheduled without them")
            self._set(served=False)
            await self._sleep(_INTERVAL_SECONDS)

    async def _watch(self) -> bool:
        """Watch until PodGroups are no longer served; return whether they could be listed."""
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
            log.info("PodGroups are served" if served else "PodGroups are no longer served")
            self._on_change()

    async def _is_served(self) -> bool:
        """Return whether the API server serves PodGroups, once it answers."""
        for pause in RECONNECT:
            try:
                found = await self._client.request("GET", f"/{group_version(KIND)}", resource="discovery")
            except (NotFound, Rejected):
                return False
            except ApiError as error:
                log.warning("discovery of PodGroups failed; it is repeated", extra={"error": str(error)})
                await self._sleep(pause)
            else:
                return any(resource["name"] == PLURALS[KIND] for resource in found.get("resources") or ())
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
