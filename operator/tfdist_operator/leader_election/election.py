"""Elects one leader among the replicas by a Lease, with client-go's rules and times.

The clocks of two replicas are never compared (ADR 10). A standby acquires the Lease only after it has observed no
change of the record for the record's whole duration; the leader stops writing when its last successful renewal began
more than `RENEW_DEADLINE_SECONDS` ago. The deadline is a third shorter than the duration, so the old leader has stopped
before a new one can begin, even if their clocks differ. The clock also counts the time in which the machine is
suspended.

`is_leader` is checked before each write, not only when a timer fires: a process that was suspended for a minute
continues with pending requests and must not send them.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NoReturn, Protocol

from tfdist_operator.kube.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError
from tfdist_operator.leader_election.lease_lock import LeaderElectionRecord

log = logging.getLogger(__name__)

LEASE_SECONDS: Final = 15
RENEW_DEADLINE_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 2.0
"""Between two renewals of the leader, and between two reads of a standby. One request of 0.5 ms in 2 s takes 0.025 % of
a core; it allows five attempts before the deadline, and a standby reads a released Lease within 2 s."""

_RELEASES: Final = 3
"""Attempts: the last renewal may be stored while the Lease is read."""


class LeadershipLost(Exception):  # noqa: N818  an event of the cluster, not an error of the program
    """This replica is no longer the leader."""


class ResourceLock(Protocol):
    """Storage of the Lease; see `lease_lock.LeaseLock` for the errors raised."""

    async def read(self) -> LeaderElectionRecord | None:
        """Return the record."""

    async def write(self, record: LeaderElectionRecord) -> LeaderElectionRecord:
        """Replace the version that the record names."""


def _clock() -> float:
    """Return a monotonic time in seconds that does not stand still while a virtual machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class LeaderElector:
    """The elector of one replica. `clock` is monotonic, in seconds; `identity` is unique to the process."""

    def __init__(
        self,
        lock: ResourceLock,
        identity: str,
        *,
        clock: Callable[[], float] = _clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._lock = lock
        self._identity = identity
        self._clock = clock
        self._sleep = sleep
        self._now = now
        self._observed: LeaderElectionRecord | None = None
        self._observed_at = 0.0
        self._stale = True
        self._leads_until = float("-inf")

    @property
    def leader(self) -> str:
        """The holder of the Lease as last observed; "" if there is none."""
        return self._observed.holder if self._observed else ""

    def is_leader(self) -> bool:
        """Return whether this replica leads now, and no other can lead yet."""
        return self._clock() < self._leads_until

    async def acquire(self) -> None:
        """Wait until this replica leads; failed requests are retried."""
        while not await self._attempt():
            await self._sleep(self._pause())

    async def renew_until_lost(self) -> NoReturn:
        """Renew the Lease until leadership is lost.

        Raises:
            LeadershipLost: another replica leads, or the Lease could not be renewed in time.
        """
        while True:
            remaining = self._leads_until - self._clock()
            await self._sleep(max(0.0, min(RETRY_SECONDS, remaining)))
            remaining = self._leads_until - self._clock()
            # Not the number of failed renewals counts, but the time since the last successful one began: this replica
            # must have stopped before a standby may lead.
            if remaining <= 0:
                raise LeadershipLost(f"the Lease could not be renewed for {RENEW_DEADLINE_SECONDS:.0f} s")
            try:
                # A request that hangs must not outlast the deadline.
                async with asyncio.timeout(remaining):
                    is_renewed = await self._attempt()
            except TimeoutError:
                continue
            if not is_renewed and self.leader not in {"", self._identity}:
                raise LeadershipLost(f"{self.leader} has taken the Lease")

    async def release(self) -> None:
        """Stop leading and release a held Lease, so that a standby need not wait for its expiry."""
        # The fence closes first: nothing may be written once the Lease is free.
        was_leader, self._leads_until = self.is_leader(), float("-inf")
        if not was_leader:
            return
        error: ApiError | None = None
        for _ in range(_RELEASES):
            try:
                await self._release_observed()
            # The last renewal may have been interrupted after the API server had stored it: its version is read again.
            except ConflictError as conflict:
                error, self._stale = conflict, True
            except ApiError as failed:
                error = failed
                break
            else:
                return
        log.warning("lease was not released; it runs out by itself", extra={"error": str(error)})

    async def _release_observed(self) -> None:
        """Release the Lease if this replica holds it.

        Raises:
            ConflictError: it was written since; by a renewal of this replica, if that was interrupted.
            ApiError: the request failed.
        """
        if self._stale:
            self._observe(await self._lock.read())
        if self._observed is None or self._observed.holder != self._identity:
            return
        now = self._timestamp()
        self._observe(
            await self._lock.write(
                replace(self._observed, holder="", duration_seconds=1, acquired_at=now, renewed_at=now)
            )
        )

    async def _attempt(self) -> bool:
        """Acquire or renew the Lease; return whether this replica holds it."""
        # The deadline counts from before the request: when the API server stores the record is not known, but it is
        # later.
        began = self._clock()
        try:
            if self._stale:
                self._observe(await self._lock.read())
                self._stale = False
            # The Lease is read again before the next attempt, which shows whether its holder has renewed it.
            if self._held_by_another():
                self._stale = True
                return False
            self._stale = True  # until the response proves that no other replica has written the Lease
            self._observe(await self._lock.write(self._claim()))
        # Another replica was faster, or the Lease has been deleted: no error.
        except (ConflictError, AlreadyExistsError, NotFoundError):
            return False
        except ApiError as error:
            log.warning("lease was not renewed; trying again", extra={"error": str(error)})
            return False
        self._stale = False
        self._leads_until = began + RENEW_DEADLINE_SECONDS
        return True

    def _claim(self) -> LeaderElectionRecord:
        """Return the record that makes this replica the leader."""
        now, observed = self._timestamp(), self._observed
        if observed is None:
            return LeaderElectionRecord(self._identity, LEASE_SECONDS, now, now, 0)
        # A renewal keeps the time of the acquisition and the number of transitions.
        if observed.holder == self._identity:
            return replace(observed, duration_seconds=LEASE_SECONDS, renewed_at=now)
        return LeaderElectionRecord(self._identity, LEASE_SECONDS, now, now, observed.transitions + 1, observed.version)

    def _observe(self, record: LeaderElectionRecord | None) -> None:
        """Record the Lease and the time of its last change, by the clock of this process, not by the writer's."""
        # Kubernetes deletes the Lease with the installation. The pods of a new one must not begin before the old leader
        # has stopped, so that the deleted Lease counts as held until its duration has passed (ADR 25).
        if record is None and self._held_by_another() and self._observed is not None:
            self._observed = replace(self._observed, version="")
            return
        # By the clock of this process: the times in the record are by that of another machine, and are never compared
        # (ADR 10).
        if record is None or record != self._observed:
            self._observed_at = self._clock()
        self._observed = record

    def _held_by_another(self) -> bool:
        observed = self._observed
        if observed is None or observed.holder in {"", self._identity}:
            return False
        return self._clock() < self._observed_at + observed.duration_seconds

    def _pause(self) -> float:
        """Return the seconds until the next attempt: just after the Lease expires, but at most `RETRY_SECONDS`."""
        jitter = random.uniform(0.05, 0.2)  # noqa: S311  two standbys need not read at the same time
        if self._held_by_another() and self._observed is not None:
            remaining = self._observed_at + self._observed.duration_seconds - self._clock()
            return min(RETRY_SECONDS, remaining + jitter)
        return RETRY_SECONDS - jitter

    def _timestamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
