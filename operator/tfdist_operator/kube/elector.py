"""Elects one leader among the replicas by a Lease, with client-go's rules and times.

No two clocks are ever compared. A replica takes the Lease over only when it has itself watched the record stay the
same for the record's whole duration; the leader stops acting when its own last successful renewal began longer than
`RENEW_DEADLINE_SECONDS` ago. The deadline is shorter than the duration by a third, so the old leader has stopped
before a new one can begin, whatever their clocks say.

`may_act` is asked before each write, not only when a timer fires: a process that was frozen for a minute wakes up
with requests in hand and must not send them.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NoReturn, Protocol

from tfdist_operator.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from tfdist_operator.kube.lease import Record

log = logging.getLogger(__name__)

LEASE_SECONDS: Final = 15
RENEW_DEADLINE_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 2.0
"""Between two renewals, and between two looks of a standby. One request of 0.5 ms in 2 s is a fortieth of a percent of
a core; it gives five tries before the deadline, and a standby that sees a released Lease within 2 s."""


class LeaseLost(Exception):  # noqa: N818  it says what happened, not that something is wrong with the program
    """This replica does not lead any more."""


class Stored(Protocol):
    """The Lease, wherever it is stored; see `kube.lease.Lease` for what is raised."""

    async def read(self) -> Record | None:
        """Return the record."""

    async def write(self, record: Record) -> Record:
        """Store the record in place of the version that it names."""


class Elector:
    """One replica's part in the election. `clock` is monotonic, in seconds; `identity` is unique to the process."""

    def __init__(
        self,
        lease: Stored,
        identity: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._lease = lease
        self._identity = identity
        self._clock = clock
        self._sleep = sleep
        self._now = now
        self._seen: Record | None = None
        self._seen_at = 0.0
        self._stale = True
        self._until = float("-inf")

    @property
    def leader(self) -> str:
        """The holder of the Lease as last seen; "" when there is none."""
        return self._seen.holder if self._seen else ""

    def may_act(self) -> bool:
        """Return whether this replica leads now, and no other can lead yet."""
        return self._clock() < self._until

    async def acquire(self) -> None:
        """Return when this replica leads; a server that does not answer is asked again."""
        while not await self._attempt():
            await self._sleep(self._pause())

    async def hold(self) -> NoReturn:
        """Keep leading.

        Raises:
            LeaseLost: another replica leads, or the Lease could not be renewed in time.
        """
        while True:
            left = self._until - self._clock()
            await self._sleep(max(0.0, min(RETRY_SECONDS, left)))
            left = self._until - self._clock()
            if left <= 0:
                raise LeaseLost(f"the Lease could not be renewed for {RENEW_DEADLINE_SECONDS:.0f} s")
            try:
                async with asyncio.timeout(left):
                    renewed = await self._attempt()
            except TimeoutError:
                continue
            if not renewed and self.leader not in {"", self._identity}:
                raise LeaseLost(f"{self.leader} has taken the Lease")

    async def release(self) -> None:
        """Stop acting and give the Lease up, if it is ours, so that a standby need not wait for its end."""
        held, self._until = self.may_act(), float("-inf")
        if self._seen is None or not held:
            return
        now = self._timestamp()
        given_up = replace(self._seen, holder="", duration_seconds=1, acquired_at=now, renewed_at=now)
        try:
            self._observe(await self._lease.write(given_up))
        except ApiError as error:
            log.warning("lease was not released; it runs out by itself", extra={"error": str(error)})

    async def _attempt(self) -> bool:
        """Take or renew the Lease; return whether it is ours."""
        began = self._clock()
        try:
            if self._stale:
                self._observe(await self._lease.read())
                self._stale = False
            if self._held_by_another():
                self._stale = True
                return False
            self._stale = True  # until the answer proves that nobody wrote in between
            self._observe(await self._lease.write(self._claim()))
        except (Conflict, AlreadyExists, NotFound):
            return False
        except ApiError as error:
            log.warning("lease was not renewed; trying again", extra={"error": str(error)})
            return False
        self._stale = False
        self._until = began + RENEW_DEADLINE_SECONDS
        return True

    def _claim(self) -> Record:
        """Return the record by which this replica leads."""
        now, seen = self._timestamp(), self._seen
        if seen is None:
            return Record(self._identity, LEASE_SECONDS, now, now, 0)
        if seen.holder == self._identity:
            return replace(seen, duration_seconds=LEASE_SECONDS, renewed_at=now)
        return Record(self._identity, LEASE_SECONDS, now, now, seen.transitions + 1, seen.version)

    def _observe(self, record: Record | None) -> None:
        """Remember a record, and since when it has been the same: by our clock, never by the writer's."""
        if record is None or record != self._seen:
            self._seen_at = self._clock()
        self._seen = record

    def _held_by_another(self) -> bool:
        seen = self._seen
        if seen is None or seen.holder in {"", self._identity}:
            return False
        return self._clock() < self._seen_at + seen.duration_seconds

    def _pause(self) -> float:
        """Return the seconds until the next look: soon after the Lease runs out, else the usual ones."""
        jitter = random.uniform(0.05, 0.2)  # noqa: S311  two standbys need not ask at the same moment
        if self._held_by_another() and self._seen is not None:
            left = self._seen_at + self._seen.duration_seconds - self._clock()
            return min(RETRY_SECONDS, left + jitter)
        return RETRY_SECONDS - jitter

    def _timestamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
