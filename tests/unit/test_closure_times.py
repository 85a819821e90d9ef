"""The times of closures under parameter servers, which end at any time: the chief names the slow worker."""

import heapq

import numpy as np
import pytest

from tfdist.contract import Role
from tfdist.contract_reports import SlowReplica
from tfdist_trainer.closure_times import LOST_SECONDS, ClosureTimes

TEN_MINUTES = 600.0
NAMED_WITHIN = 20.0
"""Less than the 30 s of the whole way: the controller reads the report every few seconds."""
STEPS = 25


class Workers:
    """Workers that compute one closure after the other, with noise, in simulated time."""

    def __init__(self, count: int, *, seed: int = 0, closure_seconds: float = 0.5) -> None:
        self.now = 0.0
        self.times = ClosureTimes(count, lambda: self.now)
        self.factors = np.ones(count)
        self.lost: set[int] = set()
        self.names: list[int | None] = []
        """Each other name in turn."""
        self._random = np.random.default_rng(seed)
        self._closure_seconds = closure_seconds
        self._running: list[tuple[float, int, float]] = []
        """End, worker and duration of the closures that workers compute."""
        for worker in range(count):
            self._begin(worker)

    def run(self, seconds: float) -> SlowReplica | None:
        """Let time pass, and return the slow worker after it."""
        until = self.now + seconds
        while self._running[0][0] <= until:
            self.now, worker, lasted = heapq.heappop(self._running)
            if worker in self.lost:
                continue
            self.times.observe(worker, STEPS, lasted, 0.1 * lasted)
            slow = self.times.slow_replica()
            index = None if slow is None else slow.index
            if index != (self.names or [None])[-1]:
                self.names.append(index)
            self._begin(worker)
        self.now = until
        return self.times.slow_replica()

    def _begin(self, worker: int) -> None:
        pause = self._random.uniform(0, 5) if self._random.random() < self._closure_seconds / 180 else 0.0
        lasts = self._closure_seconds * self._random.lognormal(0, 0.2) * self.factors[worker] + pause
        heapq.heappush(self._running, (self.now + lasts, worker, lasts))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [2, 3, 16])
def test_no_worker_of_a_healthy_gang_is_named_in_ten_minutes(count: int, seed: int) -> None:
    workers = Workers(count, seed=seed)
    workers.run(TEN_MINUTES)
    assert workers.names == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [2, 3, 16])
def test_a_worker_slowed_to_half_is_named_in_time(count: int, seed: int) -> None:
    workers = Workers(count, seed=seed)
    workers.run(100)
    workers.factors[-1] = 2
    slow = workers.run(NAMED_WITHIN)
    assert slow is not None
    assert (slow.role, slow.index) == (Role.WORKER, count - 1)
    workers.run(TEN_MINUTES)
    assert workers.names == [count - 1]


def test_the_slow_worker_has_its_times_in_a_step() -> None:
    workers = Workers(4)
    workers.factors[1] = 3
    slow = workers.run(100)
    assert slow is not None
    assert slow.own_millis == pytest.approx(1500 / STEPS, rel=0.3)
    assert slow.others_millis == pytest.approx(500 / STEPS, rel=0.3)
    assert slow.input_wait_millis == pytest.approx(0.1 * slow.own_millis)


def test_a_worker_that_recovers_is_no_longer_named() -> None:
    workers = Workers(3)
    workers.factors[0] = 2
    workers.run(60)
    workers.factors[0] = 1
    workers.run(2 * NAMED_WITHIN)
    assert workers.names == [0, None]


def test_a_slow_worker_that_is_lost_is_no_longer_named() -> None:
    workers = Workers(3)
    workers.factors[2] = 2
    assert workers.run(60) is not None
    workers.lost.add(2)
    assert workers.run(LOST_SECONDS - 10) is not None, "its next closure may take long"
    assert workers.run(100) is None


def test_closures_of_a_minute_suffice() -> None:
    """Given steps so slow that closures take longer than the window of the rule; then the slow worker is named."""
    workers = Workers(3, closure_seconds=60.0)
    workers.factors[1] = 3
    slow = workers.run(4000)
    assert slow is not None
    assert slow.index == 1


def test_closures_that_are_not_measured_name_no_worker() -> None:
    times = ClosureTimes(2)
    for _ in range(10):
        times.observe(0, STEPS, 0.0, 0.0)
    assert times.slow_replica() is None


def test_one_worker_is_never_slow() -> None:
    workers = Workers(1)
    workers.factors[0] = 5
    assert workers.run(100) is None
