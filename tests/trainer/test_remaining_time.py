"""The estimate of the remaining time, against simulated trainings of which the true remaining time is known."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tfdist.contract import Phase, Role
from tfdist.contract_reports import ProgressReport
from tfdist_trainer.remaining_time import FIRST_SECONDS, RemainingTime
from tfdist_trainer.reporter import Reporter

EPOCHS, STEPS = 20, 100


@dataclass(frozen=True)
class Training:
    """A training: its steps, the pause after each epoch, and what its script reports."""

    step_seconds: Callable[[int], float] = lambda _: 0.01
    pause_seconds: float = 0.0
    first_seconds: float = 0.0
    first_step: int = 0
    reported_every: int = 1
    with_epochs: bool = True
    with_first: bool = True

    def reports(self) -> Iterator[tuple[float, int, int]]:
        """Yield time, step and epoch of each report."""
        now = 0.0
        if self.with_first:
            yield now, self.first_step, self.first_step // STEPS
        for step in range(self.first_step, EPOCHS * STEPS):
            now += self.step_seconds(step) + (self.first_seconds if step == self.first_step else 0.0)
            done = step + 1
            is_end = done % STEPS == 0
            if is_end or done % self.reported_every == 0:
                yield now, done, done // STEPS
            now += self.pause_seconds if is_end else 0.0

    def estimates(self) -> Iterator[tuple[int, float | None, float]]:
        """Yield step, estimate and true remaining time at each report before the last one."""
        remaining, reports = RemainingTime(), list(self.reports())
        end = reports[-1][0]
        for now, step, epoch in reports[:-1]:
            shown = report(step, epoch if self.with_epochs else None)
            yield step, remaining.observe(shown, now), end - now


def report(step: int | None, epoch: int | None = None, total: int | None = EPOCHS * STEPS) -> ProgressReport:
    return ProgressReport(
        role=Role.WORKER, index=0, attempt=0, phase=Phase.TRAINING, step=step, total_steps=total, epoch=epoch
    )


TRAININGS = {
    "a callback of 1 s in each epoch": Training(pause_seconds=1),
    "a long validation": Training(pause_seconds=20),
    "slow first steps": Training(first_seconds=60),
    "slow first steps and pauses": Training(first_seconds=60, pause_seconds=3),
    "resumed at step 950": Training(first_step=950, first_seconds=30, pause_seconds=1),
    "several steps per report": Training(reported_every=7, pause_seconds=1),
    "one report per epoch": Training(reported_every=STEPS, pause_seconds=1, with_first=False),
    "steps that become slower by and by": Training(lambda step: 0.01 * (1 + step / 2000)),
    "steps that become faster by and by": Training(lambda step: 0.02 / (1 + step / 1000)),
    "steps of varying durations": Training(lambda step: 0.3 if step % 10 == 3 else 0.02),
}


@pytest.mark.parametrize("training", TRAININGS.values(), ids=TRAININGS)
def test_the_estimate_is_within_a_factor_of_two_after_the_first_epoch(training: Training) -> None:
    # when the second epoch of the process is over or under way
    begins = (training.first_step // STEPS + 2) * STEPS
    for step, estimate, left in training.estimates():
        # then every estimate is right within a factor of two, up to the last seconds
        if step > begins or estimate is not None:
            assert estimate is not None, step
            assert left / 2 - 1 <= estimate <= 2 * left + 1 + training.pause_seconds, step


@pytest.mark.parametrize("training", TRAININGS.values(), ids=TRAININGS)
def test_there_is_an_estimate_in_the_second_epoch(training: Training) -> None:
    begins = (training.first_step // STEPS + 1) * STEPS
    shown = [step for step, estimate, _ in training.estimates() if estimate is not None]
    assert shown
    assert shown[0] <= begins + STEPS


def test_after_a_change_of_speed_the_estimate_becomes_right() -> None:
    # given a training that becomes four times as slow after a quarter
    training = Training(lambda step: 0.01 if step < 500 else 0.04, pause_seconds=0.5)
    # then the estimate is within a factor of two once as much time has passed again
    late = [(estimate, left) for step, estimate, left in training.estimates() if step > 700]
    assert all(estimate is not None and left / 2 - 1 <= estimate <= 2 * left + 1 for estimate, left in late)


def test_without_epochs_there_is_no_estimate_before_half_a_minute_of_steps() -> None:
    training = Training(lambda _: 0.1, with_epochs=False, pause_seconds=1, first_seconds=60)
    shown = {step: (estimate, left) for step, estimate, left in training.estimates()}
    seconds = 1 + FIRST_SECONDS / 0.1
    assert all(shown[step][0] is None for step in range(1, 200))
    for step in range(int(seconds), 1900):
        estimate, left = shown[step]
        assert estimate is not None
        assert left / 2 <= estimate <= 2 * left


def test_the_number_of_epochs_and_reports_costs_no_memory() -> None:
    remaining = RemainingTime()
    for step in range(1, 20_000):
        estimate = remaining.observe(report(step, None if step % 2 else step, total=40_000), step * 1.0)
    assert estimate is not None
    assert 15_000 < estimate < 25_000
    assert len(remaining._marks) <= 65


def test_training_that_continues_beyond_its_last_step_has_no_remaining_time() -> None:
    remaining = RemainingTime()
    assert remaining.observe(report(12, total=10), 1.0) == 0


def test_without_a_total_there_is_no_estimate() -> None:
    remaining = RemainingTime()
    assert [remaining.observe(report(step, step, total=None), step * 100.0) for step in range(5)] == [None] * 5


def test_another_training_of_the_process_has_an_estimate_of_its_own() -> None:
    # given a training of slow steps
    remaining = RemainingTime()
    estimates = [remaining.observe(report(step, step // 2, total=20), step * 100.0) for step in range(10)]
    assert estimates[-1] is not None
    # when `fit` clears the total and another training goes on with the steps
    assert remaining.observe(report(9, None, total=None), 1000.0) is None
    assert remaining.observe(report(9, 0, total=20), 5000.0) is None
    assert remaining.observe(report(10, 0, total=20), 5001.0) is None
    # then it counts from its own first step
    remaining.observe(report(11, 1, total=20), 5002.0)
    assert remaining.observe(report(12, 1, total=20), 5003.0) == 8.0


def test_the_reporter_adds_the_estimate_to_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    # given a replica whose steps take 10 s
    reporter, now = Reporter(report(None, total=10)), [0.0]
    monkeypatch.setattr("tfdist_trainer.reporter.time.monotonic", lambda: now[0])
    for step in range(7):
        now[0] = step * 10.0
        reporter.update(step=step)
    assert reporter.current.remaining_seconds == 40.0
    # then it stays while another field changes, and goes with the total
    reporter.update(phase=Phase.CHECKPOINTING)
    assert reporter.current.remaining_seconds == 40.0
    reporter.update(total_steps=None)
    assert reporter.current.remaining_seconds is None
