"""Replicas of the controller that elect a leader by one Lease, in simulated time."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tfdist_operator.kube.errors import ConflictError, NotFoundError, UnavailableError
from tfdist_operator.leader_election.election import LeaderElector
from tfdist_operator.leader_election.lease_lock import LeaderElectionRecord


class World:
    """Time, and the API server's one Lease. Replicas have wall clocks of their own, which differ."""

    def __init__(self) -> None:
        self.time = 0.0
        self.stored: LeaderElectionRecord | None = None
        self.requests: list[str] = []
        self.down_for: set[str] = set()
        self.version = 0

    def replica(
        self, name: str, skew_seconds: float = 0.0, before_sleep: Callable[[], None] = lambda: None
    ) -> LeaderElector:
        async def sleep(seconds: float) -> None:
            before_sleep()
            self.time += seconds

        def now() -> datetime:
            return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.time + skew_seconds)

        return LeaderElector(_Access(self, name), name, clock=lambda: self.time, sleep=sleep, now=now)


class _Access:
    """The Lease as one replica reaches it."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name

    async def read(self) -> LeaderElectionRecord | None:
        self._ask("read")
        return self._world.stored

    async def write(self, record: LeaderElectionRecord) -> LeaderElectionRecord:
        self._ask("write")
        world = self._world
        if record.version and world.stored is None:
            raise NotFoundError(404, "NotFound", "")
        if record.version != (world.stored.version if world.stored else ""):
            raise ConflictError(409, "Conflict", "")
        world.version += 1
        world.stored = replace(record, version=str(world.version))
        return world.stored

    def _ask(self, verb: str) -> None:
        self._world.requests.append(f"{self._name} {verb}")
        if self._name in self._world.down_for:
            raise UnavailableError(0, "NoAnswer", "")


class Enough(Exception):  # noqa: N818  it ends an endless loop
    pass


def after(times: int) -> Callable[[], None]:
    """Return what raises `Enough` when it is called more often than `times`."""
    left = [times]

    def count() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Enough

    return count
