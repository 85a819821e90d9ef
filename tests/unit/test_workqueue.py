"""The work queue: one reconcile of a key at a time, no key is lost, and delayed keys are added by a timer."""

import asyncio

import pytest

from tfdist_operator.kube.backoff import Backoff
from tfdist_operator.kube.workqueue import WorkQueue


class Clock:
    """The time of the event loop, in seconds, which passes only if the test sets it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", clock)
    return clock


async def test_many_events_of_a_key_cause_one_reconcile() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for _ in range(100):
        queue.add("a")
    assert await queue.get() == "a"
    assert len(queue) == 0


async def test_a_key_is_never_reconciled_twice_at_once_and_never_lost() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "b"
    queue.done(key)
    assert await queue.get() == "a"


async def test_of_several_delays_the_earliest_is_effective_and_fires_once(clock: Clock) -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 10)
    queue.add_after("a", 1)
    queue.add_after("a", 5)
    clock.now = 1.0
    assert await queue.get() == "a"
    queue.done("a")
    clock.now = 20.0
    await asyncio.sleep(0)
    assert not queue._timers
    assert len(queue) == 0


async def test_a_reconcile_that_begins_drops_the_timer_of_an_earlier_one(clock: Clock) -> None:
    """Given a timer; when the key is reconciled for another reason; then the timer adds it no more."""
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 10)
    queue.add("a")
    queue.begin(await queue.get())
    queue.done("a")
    clock.now = 20.0
    await asyncio.sleep(0)
    assert len(queue) == 0


async def test_a_failed_reconcile_is_repeated_with_increasing_delays(clock: Clock) -> None:
    queue: WorkQueue[str] = WorkQueue(Backoff(0.01, 60.0, jitter=0.0))
    queue.add("a")
    delays = []
    for _ in range(4):
        await queue.get()
        queue.done("a", failed=True)
        delays.append(queue._timers["a"].when() - clock.now)
        clock.now = queue._timers["a"].when()
    assert delays == pytest.approx([0.01 * 2**i for i in range(4)])


async def test_a_waiting_worker_wakes_for_a_new_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def reconcile(key: str) -> bool:
        seen.put_nowait(key)
        return True

    worker = asyncio.create_task(queue.run_worker(reconcile))
    await asyncio.sleep(0)
    queue.add("a")
    async with asyncio.timeout(60):
        assert await seen.get() == "a"
    worker.cancel()


@pytest.mark.usefixtures("clock")
async def test_keys_that_failed_together_are_not_repeated_together() -> None:
    queue: WorkQueue[int] = WorkQueue()
    for key in range(100):
        queue.add(key)
        await queue.get()
        queue.done(key, failed=True)
    delays = {timer.when() for timer in queue._timers.values()}
    assert len(delays) > 50
    assert all(0.005 <= delay <= 0.01 for delay in delays)


async def test_a_key_that_is_always_dirty_delays_every_other_by_one_reconcile_at_a_time() -> None:
    queue: WorkQueue[str] = WorkQueue()
    quiet = [f"quiet-{i}" for i in range(50)]
    for key in ("busy", *quiet):
        queue.add(key)
    served = []
    for _ in range(150):
        key = await queue.get()
        served.append(key)
        queue.add(key)  # it changed during its reconcile
        queue.done(key)
    rounds = [served[i : i + 51] for i in range(0, 102, 51)]
    assert rounds == [["busy", *quiet]] * 2


@pytest.mark.usefixtures("clock")
async def test_a_key_whose_reconciles_fail_does_not_delay_the_others() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("failing")
    queue.add("healthy")
    queue.done(await queue.get(), failed=True)
    assert await queue.get() == "healthy"


@pytest.mark.usefixtures("clock")
async def test_a_reconcile_that_raises_ends_no_worker() -> None:
    """Given one worker; when a key's reconcile raises, then the next key is served and the first is repeated."""
    queue: WorkQueue[str] = WorkQueue()
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def reconcile(key: str) -> bool:
        seen.put_nowait(key)
        if key == "bad":
            raise RecursionError
        return True

    queue.add("bad")
    queue.add("good")
    worker = asyncio.create_task(queue.run_worker(reconcile))
    async with asyncio.timeout(60):
        assert [await seen.get(), await seen.get()] == ["bad", "good"]
    assert not worker.done()
    assert "bad" in queue._timers
    worker.cancel()
