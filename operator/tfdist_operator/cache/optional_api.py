"""The watch of an API that not every API server serves: it is started and stopped as discovery finds the API.

Only discovery shows whether an object of the API acts. An API server whose feature gate is off drops the field of a pod
that names its PodGroup without an error, and one whose gate is on without the API keeps such pods pending; the APIs of
other schedulers are served while their definitions are installed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tfdist_operator.cache.informer import Informer
from tfdist_operator.kube.backoff import RECONNECT
from tfdist_operator.kube.client import Client
from tfdist_operator.kube.errors import ApiError, NotFound, Rejected

log = logging.getLogger(__name__)

_INTERVAL_SECONDS: Final = 30.0
_SYNC_SECONDS: Final = 10.0
"""Time limit of the first lists; without rights on the objects they never come."""

Discovery = Callable[[Client], Awaitable[str]]
"""Returns the version of an API that is served, "" for none. `NotFound` and `Rejected` count as none."""


class OptionalApi:
    """Watches the objects of an API while the API server serves it: one request each 30 s, and the watches.

    Args:
        client: client of the API server.
        name: of the API, for messages.
        discover: asks which version is served.
        make_informers: returns new informers of that version; an informer is not started twice.
        on_change: is called when `version` has changed.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        client: Client,
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
        self.version = ""
        """The version that is served and whose objects are in the cache; "" for none."""
        self.checked = asyncio.Event()
        """Set after the first answer of the API server."""

    @property
    def served(self) -> bool:
        """Whether the API is served and its objects are in the cache."""
        return bool(self.version)

    async def run(self) -> None:
        """Poll discovery, and watch while the API server serves the API."""
        while True:
            version = await self._served_version()
            if version and not await self._watch(version):
                log.warning("served and cannot be listed; not used", extra={"api": self.name})
            self._set("")
            await self._sleep(_INTERVAL_SECONDS)

    async def _watch(self, version: str) -> bool:
        """Watch until the version is no longer served; return whether its objects could be listed."""
        informers = self._make_informers(version)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(informer.run(), name=f"watch {informer.what}") for informer in informers]
            is_synced = await _all_synced(informers)
            if is_synced:
                self._set(version)
                while await self._served_version() == version:
                    await self._sleep(_INTERVAL_SECONDS)
            for task in tasks:
                task.cancel()
        return is_synced

    def _set(self, version: str) -> None:
        has_changed, self.version = version != self.version, version
        self.checked.set()
        if has_changed:
            log.info("served" if version else "no longer served", extra={"api": self.name})
            self._on_change()

    async def _served_version(self) -> str:
        """Return the version that the API server serves, once it answers."""
        for pause in RECONNECT:
            try:
                return await self._discover(self._client)
            except (NotFound, Rejected):
                return ""
            except ApiError as error:
                log.warning("discovery failed; it is repeated", extra={"api": self.name, "error": str(error)})
                await self._sleep(pause)
        raise AssertionError  # RECONNECT never ends


async def is_served(client: Client, path: str, plural: str) -> bool:
    """Return whether the API server serves a resource, given the path of its group and version.

    Raises:
        NotFound: it does not serve the version.
        ApiError: the request failed.
    """
    document = await client.request("GET", f"/{path}", resource="discovery")
    return any(resource["name"] == plural for resource in document.get("resources") or ())


async def _all_synced(informers: Sequence[Informer]) -> bool:
    """Return whether all informers sync within the time limit."""
    try:
        async with asyncio.timeout(_SYNC_SECONDS):
            for informer in informers:
                await informer.synced.wait()
    except TimeoutError:
        return False
    return True
