"""Leader election: one leader at a time for any wall clocks, and no leader acts longer than its lease allows."""

import asyncio
from dataclasses import replace

import pytest
from support.leases import Enough, World, after

from tfdist_operator.leader_election.election import (
    LEASE_SECONDS,
    RENEW_DEADLINE_SECONDS,
    RETRY_SECONDS,
    LeadershipLost,
)
from tfdist_operator.leader_election.lease_lock import LeaderElectionRecord


@pytest.fixture
def world() -> World:
    return World()


async def test_the_first_replica_creates_the_lease_and_leads(world: World) -> None:
    a = world.replica("a")
    assert not a.is_leader()
    await a.acquire()
    assert a.is_leader()
    assert world.stored is not None
    assert (world.stored.holder, world.stored.duration_seconds, world.stored.transitions) == ("a", LEASE_SECONDS, 0)


async def test_of_two_replicas_that_try_to_acquire_at_once_one_is_rejected(world: World) -> None:
    a, b = world.replica("a"), world.replica("b", before_sleep=after(0))
    await asyncio.gather(a.acquire(), b.acquire(), return_exceptions=True)
    assert [a.is_leader(), b.is_leader()] == [True, False]


async def test_a_renewal_is_one_request_and_keeps_when_the_lease_was_acquired(world: World) -> None:
    a = world.replica("a", before_sleep=after(3))
    await a.acquire()
    first = world.stored
    world.requests.clear()
    with pytest.raises(Enough):
        await a.renew_until_lost()
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
    assert not b.is_leader()
    assert b.leader == "a"


async def test_the_lease_of_a_dead_leader_is_acquired_soon_after_it_expires(world: World) -> None:
    a, b = world.replica("a"), world.replica("b")
    await a.acquire()
    await b.acquire()
    assert LEASE_SECONDS <= world.time <= LEASE_SECONDS + 0.5
    assert world.stored is not None
    assert (world.stored.holder, world.stored.transitions) == ("b", 1)
    assert not a.is_leader()


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
    with pytest.raises(LeadershipLost, match="could not be renewed for 10 s"):
        await a.renew_until_lost()
    assert world.time == pytest.approx(RENEW_DEADLINE_SECONDS)
    assert not a.is_leader()
    assert not await b._attempt()
    await b.acquire()
    assert world.time >= LEASE_SECONDS


async def test_a_frozen_leader_may_not_act_when_it_wakes_up(world: World) -> None:
    a = world.replica("a")
    await a.acquire()
    world.time += RENEW_DEADLINE_SECONDS
    assert not a.is_leader()


async def test_time_counts_from_the_beginning_of_a_renewal_that_was_slow(world: World) -> None:
    a = world.replica("a")
    slow = a._lock.write

    async def write(record: LeaderElectionRecord) -> LeaderElectionRecord:
        world.time += 4
        return await slow(record)

    a._lock.write = write  # type: ignore[method-assign]
    await a.acquire()
    world.time = RENEW_DEADLINE_SECONDS - 0.1
    assert a.is_leader()
    world.time = RENEW_DEADLINE_SECONDS
    assert not a.is_leader()


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
        await a.renew_until_lost()
    assert a.is_leader()
    assert world.stored is not None
    assert world.stored.transitions == 0


async def test_a_lost_answer_to_a_renewal_is_no_loss_of_leadership(world: World) -> None:
    a = world.replica("a", before_sleep=after(3))
    await a.acquire()
    assert world.stored is not None
    world.version += 1
    world.stored = replace(world.stored, version=str(world.version))  # the replica's own write, whose response was lost
    with pytest.raises(Enough):
        await a.renew_until_lost()
    assert a.is_leader()


async def test_a_leader_that_sees_another_stops_at_once(world: World) -> None:
    a = world.replica("a")
    await a.acquire()
    world.version += 1
    world.stored = LeaderElectionRecord("b", LEASE_SECONDS, "", "", 1, str(world.version))
    with pytest.raises(LeadershipLost, match="b has taken"):
        await a.renew_until_lost()
    assert world.time <= 2 * RETRY_SECONDS


async def test_a_deleted_lease_is_created_again(world: World) -> None:
    a = world.replica("a", before_sleep=after(3))
    await a.acquire()
    world.stored = None
    with pytest.raises(Enough):
        await a.renew_until_lost()
    assert world.stored is not None
    assert a.is_leader()


async def test_a_released_lease_is_acquired_at_the_next_attempt(world: World) -> None:
    a, b = world.replica("a"), world.replica("b")
    await a.acquire()
    await b._attempt()
    await a.release()
    assert not a.is_leader()
    assert world.stored is not None
    assert (world.stored.holder, world.stored.duration_seconds) == ("", 1)
    began = world.time
    await b.acquire()
    assert world.time - began <= RETRY_SECONDS
    assert world.stored.transitions == 1


async def test_a_lease_is_released_although_the_answer_to_its_last_renewal_was_lost(world: World) -> None:
    a = world.replica("a")
    await a.acquire()
    assert world.stored is not None
    world.version += 1
    world.stored = replace(world.stored, version=str(world.version))  # the end of the process cancelled its renewal
    await a.release()
    assert world.stored.holder == ""


async def test_a_lease_that_another_replica_has_taken_is_not_released(world: World) -> None:
    a = world.replica("a")
    await a.acquire()
    world.version += 1
    world.stored = LeaderElectionRecord("b", LEASE_SECONDS, "", "", 1, str(world.version))
    await a.release()
    assert world.stored.holder == "b"


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
    assert not a.is_leader()


async def test_requests_to_an_unreachable_server_are_repeated_until_it_answers(world: World) -> None:
    sleeps = 0

    def recover() -> None:
        nonlocal sleeps
        sleeps += 1
        if sleeps == 5:
            world.down_for.clear()

    a = world.replica("a", before_sleep=recover)
    world.down_for.add("a")
    await a.acquire()
    assert a.is_leader()
    assert sleeps == 5


async def test_a_lease_that_is_removed_while_its_holder_may_act_is_waited_for(world: World) -> None:
    """Given a leader, when its Lease goes with its installation, then a standby does not lead before it has stopped."""
    a, b = world.replica("a"), world.replica("b", before_sleep=after(1000))
    await a.acquire()
    assert not await b._attempt()
    world.stored = None
    await b.acquire()
    assert (a.is_leader(), b.is_leader()) == (False, True)
