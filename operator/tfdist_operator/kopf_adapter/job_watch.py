"""kopf's watch of the jobs, completed by the detection of deletions and of the end of the first list.

Each of kopf's lists is followed by a comparison with a list of metadata (`cache.resync`). After the first comparison
the cache holds every job.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from tfdist.api.resource import PLURAL
from tfdist_operator.kopf_adapter.kopf_session import KopfSession
from tfdist_operator.kube.backoff import RECONNECT
from tfdist_operator.kube.errors import ApiError

log = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 3.0
"""Delay between one of kopf's lists and the comparison: after an outage, kopf often lists the jobs more than once."""


class JobWatch:
    """The watch of jobs, for probes and leadership.

    Args:
        session: observes kopf's requests.
        compare: compares the job cache with the API server.
        sleep: waits for a number of seconds.
    """

    name: Final = PLURAL

    def __init__(
        self,
        session: KopfSession,
        compare: Callable[[], Awaitable[None]],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._session = session
        self._compare = compare
        self._sleep = sleep
        self.synced = asyncio.Event()
        """Set once the cache has held all jobs of one list."""

    @property
    def last_contact(self) -> float:
        """When the stream that has been silent for longest last received data, on the monotonic clock."""
        return min(self._session.last_contact.values())

    async def run(self) -> None:
        """Compare after each of kopf's lists, until cancelled."""
        while True:
            await self._session.wait_until_listed()
            # After an outage, kopf often lists the jobs more than once: one comparison follows the last of these lists.
            if self.synced.is_set():
                await self._sleep(SETTLE_SECONDS)
            # kopf reports no deletions that a list reveals: after an interruption, deleted jobs would stay in the cache
            # for ever (ADR 10).
            await self._compare_at_last()
            self.synced.set()

    async def _compare_at_last(self) -> None:
        for seconds in RECONNECT:
            try:
                await self._compare()
                break
            except (ApiError, KeyError, TypeError, ValueError) as error:
                log.warning("jobs cannot be compared with the API server yet; repeated", extra={"error": repr(error)})
            await self._sleep(seconds)
