"""Early stopping of the trials of a sweep."""

import math

import pytest
from support.sweeps import sweep_manifest

from tfdist.api.sweep import SweepEarlyStopping, TFDistSweep
from tfdist.sweeps.early_stopping import Point, asha, median
from tfdist.sweeps.values import trial_values

ASHA = SweepEarlyStopping(method="Asha", min_steps=100, reduction=3)
MEDIAN = SweepEarlyStopping(method="Median", min_steps=100, min_trials=3)


def at(step: int, *values: float) -> dict[int, Point]:
    return {trial: Point(step, value) for trial, value in enumerate(values)}


def test_before_the_first_rung_no_trial_stops() -> None:
    assert asha(ASHA, {}, at(99, 0.1, 0.9), maximizes=True) == ({}, frozenset())


@pytest.mark.parametrize(("maximizes", "stopped"), [(True, {0, 1, 2, 3}), (False, {2, 3, 4, 5})])
def test_the_best_third_of_a_rung_continues(maximizes: bool, stopped: set[int]) -> None:
    rungs, found = asha(ASHA, {}, at(100, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6), maximizes=maximizes)
    assert found == stopped
    assert rungs == {100: {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4, 4: 0.5, 5: 0.6}}


def test_the_first_trial_at_a_rung_continues_and_is_not_judged_there_again() -> None:
    rungs, found = asha(ASHA, {}, {0: Point(100, 0.1)}, maximizes=True)
    assert not found
    rungs, found = asha(ASHA, rungs, {0: Point(200, 0.1), 1: Point(100, 0.9)}, maximizes=True)
    assert not found
    assert rungs == {100: {0: 0.1, 1: 0.9}}


def test_a_trial_that_reports_rarely_is_judged_at_each_rung_that_it_has_passed() -> None:
    rungs, found = asha(ASHA, {100: {8: 0.9}, 300: {8: 0.95}}, {0: Point(950, 0.5)}, maximizes=True)
    assert rungs == {100: {8: 0.9, 0: 0.5}, 300: {8: 0.95, 0: 0.5}, 900: {0: 0.5}}
    assert found == {0}


def test_after_the_last_rung_a_trial_trains_to_its_end() -> None:
    options = ASHA.model_copy(update={"max_rungs": 1})
    assert asha(options, {100: {0: 0.1, 1: 0.9}}, {0: Point(300, 0.0)}, maximizes=True)[1] == frozenset()


@pytest.mark.parametrize("maximizes", [True, False])
def test_a_trial_whose_metric_is_not_finite_stops(maximizes: bool) -> None:
    assert asha(ASHA, {}, {0: Point(100, math.nan), 1: Point(100, 0.5)}, maximizes=maximizes)[1] == {0}


def test_a_trial_that_is_worse_than_the_median_of_the_others_means_stops() -> None:
    # given three trials whose means up to step 100 are 0.5, 0.6 and 0.7
    curves = {k: [Point(50, mean - 0.1), Point(100, mean + 0.1)] for k, mean in enumerate((0.5, 0.6, 0.7))}
    # then one whose best value is below 0.6 stops, and not one that was better once
    assert median(MEDIAN, curves | {3: [Point(100, 0.59)]}, frozenset({3}), maximizes=True) == {3}
    better = curves | {3: [Point(50, 0.61), Point(100, 0.1)]}
    assert median(MEDIAN, better, frozenset({3}), maximizes=True) == frozenset()
    assert median(MEDIAN, curves | {3: [Point(100, 0.61)]}, frozenset({3}), maximizes=False) == {3}


def test_no_trial_stops_before_enough_others_have_reached_its_step() -> None:
    curves = {0: [Point(100, 0.9)], 1: [Point(100, 0.9)], 2: [Point(99, 0.9)], 3: [Point(100, 0.1)]}
    assert median(MEDIAN, curves, frozenset({3}), maximizes=True) == frozenset()


def accuracy(learning_rate: float, step: int) -> float:
    """Return the accuracy of a simulated training, best at a learning rate of 0.01."""
    final = 0.95 - 0.04 * math.log10(learning_rate / 0.01) ** 2
    return final * (1 - math.exp(-step / 300))


def test_a_third_of_the_steps_finds_a_trial_within_half_a_percent_of_the_best() -> None:
    # given 60 trials of 2,700 steps, four at a time, which report every 50 steps
    search = {"trials": 60, "seed": 1}
    parameters = [{"name": "rate", "range": {"min": 1e-5, "max": 1, "scale": "Log"}}]
    spec = TFDistSweep.model_validate(sweep_manifest(parameters=parameters, search=search)).spec
    rates = [trial_values(spec, trial)["rate"] for trial in range(60)]
    waiting, running, steps, finished = list(range(60)), dict[int, int](), 0, list[float]()
    rungs: dict[int, dict[int, float]] = {}
    while waiting or running:
        while waiting and len(running) < 4:
            running[waiting.pop(0)] = 0
        # when each takes its next steps
        running = {trial: step + 50 for trial, step in running.items()}
        steps += 50 * len(running)
        points = {trial: Point(step, accuracy(rates[trial], step)) for trial, step in running.items()}
        rungs, stopped = asha(ASHA, rungs, points, maximizes=True)
        finished += [points[trial].value for trial, step in running.items() if step == 2700 and trial not in stopped]
        running = {trial: step for trial, step in running.items() if step < 2700 and trial not in stopped}
    # then the best one is as good as that of full runs, for a third of the steps or fewer
    assert max(finished) >= max(accuracy(rate, 2700) for rate in rates) - 0.005
    assert steps <= 60 * 2700 / 3
