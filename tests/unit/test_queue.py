"""The keyed queue: one look at a key at a time, none lost, delays that fire by themselves."""

import asyncio

import pytest

from tfdist_operator.kube.queue import FIRST_RETRY_SECONDS, KeyedQueue


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_many_events_of_a_key_make_one_look() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    for _ in range(100):
        queue.add("a")
    assert await queue.get() == "a"
    assert len(queue) == 0


async def test_a_key_is_never_looked_at_twice_at_once_and_never_forgotten() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "b"
    queue.done(key)
    assert await queue.get() == "a"


async def test_of_two_delays_the_earlier_counts_and_fires_once() -> None:
    clock = Clock()
    queue: KeyedQueue[str] = KeyedQueue(clock)
    queue.add_after("a", 10)
    queue.add_after("a", 1)
    queue.add_after("a", 5)
    clock.now = 1.0
    assert await queue.get() == "a"
    queue.done("a")
    clock.now = 20.0
    assert queue._fire_timers() is None
    assert len(queue) == 0


async def test_a_failed_look_is_repeated_later_each_time() -> None:
    clock = Clock()
    queue: KeyedQueue[str] = KeyedQueue(clock, jitter=lambda: 1.0)
    queue.add("a")
    delays = []
    for _ in range(4):
        await queue.get()
        queue.done("a", failed=True)
        delays.append(queue._due["a"] - clock.now)
        clock.now = queue._due["a"]
    assert delays == pytest.approx([FIRST_RETRY_SECONDS * 2**i for i in range(4)])


async def test_a_waiting_worker_wakes_for_a_new_key() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def look(key: str) -> bool:
        seen.put_nowait(key)
        return True

    worker = asyncio.create_task(queue.work(look))
    await asyncio.sleep(0)
    queue.add("a")
    async with asyncio.timeout(5):
        assert await seen.get() == "a"
    worker.cancel()


async def test_keys_that_failed_together_are_not_repeated_together() -> None:
    clock = Clock()
    queue: KeyedQueue[int] = KeyedQueue(clock)
    for key in range(100):
        queue.add(key)
        await queue.get()
        queue.done(key, failed=True)
    delays = set(queue._due.values())
    assert len(delays) > 50
    assert all(FIRST_RETRY_SECONDS / 2 <= delay <= FIRST_RETRY_SECONDS for delay in delays)


async def test_a_key_that_is_always_dirty_delays_every_other_by_one_look_a_round() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    quiet = [f"quiet-{i}" for i in range(50)]
    for key in ("busy", *quiet):
        queue.add(key)
    served = []
    for _ in range(150):
        key = await queue.get()
        served.append(key)
        queue.add(key)  # it changed during its look
        queue.done(key)
    rounds = [served[i : i + 51] for i in range(0, 102, 51)]
    assert rounds == [["busy", *quiet]] * 2


async def test_a_key_whose_looks_fail_does_not_hold_up_the_others() -> None:
    clock = Clock()
    queue: KeyedQueue[str] = KeyedQueue(clock)
    queue.add("failing")
    queue.add("healthy")
    queue.done(await queue.get(), failed=True)
    assert await queue.get() == "healthy"
