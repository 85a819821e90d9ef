"""The election: one leader at a time, whatever the clocks say, and none that acts longer than it may."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tfdist_operator.kube.elector import LEASE_SECONDS, RENEW_DEADLINE_SECONDS, RETRY_SECONDS, Elector, LeaseLost
from tfdist_operator.kube.errors import Conflict, NotFound, Unavailable
from tfdist_operator.kube.lease import Record


class World:
    """Time, and the API server's one Lease. Replicas have wall clocks of their own, which differ."""

    def __init__(self) -> None:
        self.time = 0.0
        self.stored: Record | None = None
        self.requests: list[str] = []
        self.down_for: set[str] = set()
        self.version = 0

    def replica(self, name: str, skew_seconds: float = 0.0, before_sleep: Callable[[], None] = lambda: None) -> Elector:
        async def sleep(seconds: float) -> None:
            before_sleep()
            self.time += seconds

        def now() -> datetime:
            return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.time + skew_seconds)

        return Elector(_Access(self, name), name, clock=lambda: self.time, sleep=sleep, now=now)


class _Access:
    """The Lease as one replica reaches it."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name

    async def read(self) -> Record | None:
        self._ask("read")
        return self._world.stored

    async def write(self, record: Record) -> Record:
        self._ask("write")
        world = self._world
        if record.version and world.stored is None:
            raise NotFound(404, "NotFound", "")
        if record.version != (world.stored.version if world.stored else ""):
            raise Conflict(409, "Conflict", "")
        world.version += 1
        world.stored = replace(record, version=str(world.version))
        return world.stored

    def _ask(self, verb: str) -> None:
        self._world.requests.append(f"{self._name} {verb}")
        if self._name in self._world.down_for:
            raise Unavailable(0, "NoAnswer", "")


@pytest.fixture
def world() -> World:
    return World()


class Enough(Exception):  # noqa: N818  it ends a loop that would run for ever
    pass


def after(times: int) -> Callable[[], None]:
    """Return what raises `Enough` when it is called more often than `times`."""
    left = [times]

    def count() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Enough

    return count


async def test_the_first_replica_creates_the_lease_and_leads(world: World) -> None:
    a = world.replica("a")
    assert not a.may_act()
    await a.acquire()
    assert a.may_act()
    assert world.stored is not None
    assert (world.stored.holder, world.stored.duration_seconds, world.stored.transitions) == ("a", LEASE_SECONDS, 0)


async def test_of_two_replicas_that_ask_at_once_one_is_refused(world: World) -> None:
    a, b = world.replica("a"), world.replica("b", before_sleep=after(0))
    await asyncio.gather(a.acquire(), b.acquire(), return_exceptions=True)
    assert [a.may_act(), b.may_act()] == [True, False]


async def test_a_renewal_is_one_request_and_keeps_when_the_lease_was_acquired(world: World) -> None:
    a = world.replica("a", before_sleep=after(3))
    await a.acquire()
    first = world.stored
    world.requests.clear()
    with pytest.raises(Enough):
        await a.hold()
    assert world.requests == ["a write"] * 3
    assert first is not None
    assert world.stored is not None
    assert (world.stored.acquired_at, world.stored.transitions) == (first.acquired_at, 0)
    assert world.stored.renewed_at > first.renewed_at


async def test_a_standby_waits_while_the_leader_renews(world: World) -> None:
    a, b = world.replica("a"), world.replica("b", before_sleep=after(50))
    await a.acquire()
    renew = a._attempt

    async def both() -> None:
        for _ in range(50):
            assert not await b._attempt()
            assert await renew()
            world.time += RETRY_SECONDS

    await both()
    assert not b.may_act()
    assert b.leader == "a"


async def test_a_dead_leaders_lease_is_taken_soon_after_it_runs_out(world: World) -> None:
    a, b = world.replica("a"), world.replica("b")
    await a.acquire()
    await b.acquire()
    assert LEASE_SECONDS <= world.time <= LEASE_SECONDS + 0.5
    assert world.stored is not None
    assert (world.stored.holder, world.stored.transitions) == ("b", 1)
    assert not a.may_act()


@pytest.mark.parametrize("skew_seconds", [-86400.0, -60.0, 60.0, 86400.0])
async def test_a_wrong_wall_clock_neither_hastens_nor_delays_a_takeover(world: World, skew_seconds: float) -> None:
    a, b = world.replica("a", skew_seconds), world.replica("b")
    await a.acquire()
    await b.acquire()
    assert LEASE_SECONDS <= world.time <= LEASE_SECONDS + 0.5


async def test_a_standby_counts_from_when_it_saw_the_record_and_not_from_when_it_was_written(world: World) -> None:
    a = world.replica("a")
    await a.acquire()
    world.time += 1000  # the leader is long dead when this standby starts, but it cannot know that
    b = world.replica("b")
    await b.acquire()
    assert world.time >= 1000 + LEASE_SECONDS


async def test_a_leader_that_cannot_renew_stops_acting_before_another_can_begin(world: World) -> None:
    a, b = world.replica("a"), world.replica("b")
    await a.acquire()
    await b._attempt()
    world.down_for.add("a")
    with pytest.raises(LeaseLost, match="could not be renewed for 10 s"):
        await a.hold()
    assert world.time == pytest.approx(RENEW_DEADLINE_SECONDS)
    assert not a.may_act()
    assert not await b._attempt()
    await b.acquire()
    assert world.time >= LEASE_SECONDS


async def test_a_frozen_leader_may_not_act_when_it_wakes_up(world: World) -> None:
    a = world.replica("a")
    await a.acquire()
    world.time += RENEW_DEADLINE_SECONDS
    assert not a.may_act()


async def test_time_counts_from_the_beginning_of_a_renewal_that_was_slow(world: World) -> None:
    a = world.replica("a")
    slow = a._lease.write

    async def write(record: Record) -> Record:
        world.time += 4
        return await slow(record)

    a._lease.write = write  # type: ignore[method-assign]
    await a.acquire()
    world.time = RENEW_DEADLINE_SECONDS - 0.1
    assert a.may_act()
    world.time = RENEW_DEADLINE_SECONDS
    assert not a.may_act()


async def test_a_short_outage_does_not_end_leadership(world: World) -> None:
    sleeps = 0

    def outage() -> None:
        nonlocal sleeps
        sleeps += 1
        world.down_for = {"a"} if sleeps in {2, 3, 4} else set()
        if sleeps == 8:
            raise Enough

    a = world.replica("a", before_sleep=outage)
    await a.acquire()
    with pytest.raises(Enough):
        await a.hold()
    assert a.may_act()
    assert world.stored is not None
    assert world.stored.transitions == 0


async def test_a_lost_answer_to_a_renewal_is_no_loss_of_leadership(world: World) -> None:
    a = world.replica("a", before_sleep=after(3))
    await a.acquire()
    assert world.stored is not None
    world.version += 1
    world.stored = replace(world.stored, version=str(world.version))  # our own write, whose answer never came
    with pytest.raises(Enough):
        await a.hold()
    assert a.may_act()


async def test_a_leader_that_sees_another_stops_at_once(world: World) -> None:
    a = world.replica("a")
    await a.acquire()
    world.version += 1
    world.stored = Record("b", LEASE_SECONDS, "", "", 1, str(world.version))
    with pytest.raises(LeaseLost, match="b has taken"):
        await a.hold()
    assert world.time <= 2 * RETRY_SECONDS


async def test_a_deleted_lease_is_made_again(world: World) -> None:
    a = world.replica("a", before_sleep=after(3))
    await a.acquire()
    world.stored = None
    with pytest.raises(Enough):
        await a.hold()
    assert world.stored is not None
    assert a.may_act()


async def test_a_released_lease_is_taken_at_the_next_look(world: World) -> None:
    a, b = world.replica("a"), world.replica("b")
    await a.acquire()
    await b._attempt()
    await a.release()
    assert not a.may_act()
    assert world.stored is not None
    assert (world.stored.holder, world.stored.duration_seconds) == ("", 1)
    began = world.time
    await b.acquire()
    assert world.time - began <= RETRY_SECONDS
    assert world.stored.transitions == 1


async def test_a_standby_releases_nothing(world: World) -> None:
    a, b = world.replica("a"), world.replica("b")
    await a.acquire()
    await b._attempt()
    await b.release()
    assert world.stored is not None
    assert world.stored.holder == "a"


async def test_a_release_that_fails_does_not_keep_the_process(world: World) -> None:
    a = world.replica("a")
    await a.acquire()
    world.down_for.add("a")
    await a.release()
    assert not a.may_act()


async def test_an_unreachable_server_is_asked_until_it_answers(world: World) -> None:
    sleeps = 0

    def recover() -> None:
        nonlocal sleeps
        sleeps += 1
        if sleeps == 5:
            world.down_for.clear()

    a = world.replica("a", before_sleep=recover)
    world.down_for.add("a")
    await a.acquire()
    assert a.may_act()
    assert sleeps == 5
