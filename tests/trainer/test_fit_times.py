"""The times of the steps of `fit`: what the workers share, and when."""

import numpy as np
import pytest

from tfdist_trainer.keras.fit_times import FitTimes
from tfdist_trainer.upstream.strategy_worker import Worker

pytestmark = pytest.mark.trainer

CALLS, SECONDS = 100, 0.01


@pytest.fixture(autouse=True)
def no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFDIST_JOB", raising=False)


def test_calls_of_one_step_share_their_times_now_and_then_and_in_the_same_call() -> None:
    workers = [FitTimes(Worker(rank, 2, 1)) for rank in range(2)]
    shared = 0
    for _ in range(CALLS):
        figures = [times.figures_to_share() for times in workers]
        assert any(figures[0]) == any(figures[1])
        shared += any(figures[0])
        for times in workers:
            times.receive(np.mean(figures, axis=0), SECONDS)
            times.observe(1, SECONDS, 0.001, 0.002)
    assert 2 <= shared <= 4, "once in a quarter of a second"


def test_all_calls_exchange_equally_many_figures() -> None:
    times = FitTimes(Worker(0, 3, 1))
    lengths = set()
    for _ in range(CALLS):
        lengths.add(len(times.figures_to_share()))
        times.receive([0.0] * len(times.figures_to_share()), SECONDS)
        times.observe(1, SECONDS, 0.001, 0.002)
    assert lengths == {2 * 3}
