"""Early stopping of the trials of a sweep."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sweeps import sweep_manifest

from tfdist.api.sweep import SweepEarlyStopping, TFDistSweep
from tfdist.sweeps.early_stopping import Point, Rungs, asha, median, order_of_merit, promoted
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


MEANS: dict[int, dict[int, float]] = {
    step: {trial: mean + change for trial, mean in enumerate((0.5, 0.6, 0.7))}
    for step, change in ((100, -0.1), (200, 0.1))
}
"""Rungs of three trials whose means up to step 200 are 0.5, 0.6 and 0.7."""


@pytest.mark.parametrize(
    ("before", "value", "maximizes", "stops"),
    [(0.2, 0.59, True, True), (0.61, 0.1, True, False), (0.7, 0.61, False, True), (0.59, 0.9, False, False)],
)
def test_a_trial_whose_best_value_is_worse_than_the_median_of_the_others_means_stops(
    before: float, value: float, maximizes: bool, stops: bool
) -> None:
    rungs = {100: {**MEANS[100], 3: before}, 200: MEANS[200]}
    found, stopped = median(MEDIAN, rungs, {3: Point(250, value)}, maximizes=maximizes)
    assert found == {100: rungs[100], 200: {**MEANS[200], 3: value}}
    assert stopped == ({3} if stops else frozenset())


def test_no_trial_stops_before_enough_others_have_reached_its_rung() -> None:
    rungs = {100: {0: 0.9, 1: 0.9, 2: 0.9}, 200: {0: 0.9, 1: 0.9}}
    assert median(MEDIAN, rungs, {3: Point(99, 0.1)}, maximizes=True)[1] == frozenset()
    assert median(MEDIAN, {200: rungs[200]}, {3: Point(200, 0.1)}, maximizes=True)[1] == frozenset()
    assert median(MEDIAN, rungs, {3: Point(100, 0.1)}, maximizes=True)[1] == {3}


def test_a_stopped_trial_is_promoted_once_it_is_among_the_best_of_its_highest_rung() -> None:
    # given a trial that was the third of three at a rung, and better than those that came later
    rungs = {100: {0: 0.9, 1: 0.8, 2: 0.7, 3: 0.1, 4: 0.2, 5: 0.3}, 300: {0: 0.9}}
    assert promoted(ASHA, rungs, frozenset({1, 2, 3, 4, 5}), maximizes=True) == [1]
    # then none is promoted from a rung above which it has been judged
    assert promoted(ASHA, {**rungs, 300: {0: 0.9, 1: 0.5, 2: 0.1}}, frozenset({1, 2}), maximizes=True) == []


VALUES = st.sampled_from((0.0, -0.0, 0.1, 0.2, 0.3, -1e300, 1e300, math.inf, -math.inf, math.nan)) | st.floats(-1, 1)
RUNGS = st.dictionaries(
    st.sampled_from((1, 2, 3, 4, 6, 9)), st.dictionaries(st.integers(0, 9), VALUES, max_size=8), max_size=4
)
LATEST = st.dictionaries(st.integers(0, 9), st.builds(Point, st.integers(0, 12), VALUES))


def merit(value: float, *, maximizes: bool) -> float:
    return (value if maximizes else -value) if math.isfinite(value) else -math.inf


def is_below_median(rungs: Rungs, step: int, trial: int, min_trials: int, *, maximizes: bool) -> bool:
    """Return whether a trial stops at a rung: the definition of the rule for one trial, word for word."""
    so_far = [values for rung, values in rungs.items() if rung <= step]
    values_of_others = [
        [values[other] for values in so_far if other in values] for other in rungs[step].keys() - {trial}
    ]
    finite = [list(filter(math.isfinite, values)) for values in values_of_others]
    means = [statistics.fmean(values) for values in finite if values]
    if len(means) < min_trials:
        return False
    best = max(merit(values[trial], maximizes=maximizes) for values in so_far if trial in values)
    return best < merit(statistics.median(means), maximizes=maximizes)


@given(RUNGS, LATEST, st.integers(1, 4), st.booleans())
def test_the_trials_that_stop_at_a_median_are_those_of_its_definition(
    rungs: Rungs, latest: dict[int, Point], min_trials: int, maximizes: bool
) -> None:
    options = SweepEarlyStopping(method="Median", min_steps=1, min_trials=min_trials)
    found, stopped = median(options, rungs, latest, maximizes=maximizes)
    arrivals = [(step, trial) for step, values in found.items() for trial in values.keys() - rungs.get(step, {}).keys()]
    assert stopped == {
        trial for step, trial in arrivals if is_below_median(found, step, trial, min_trials, maximizes=maximizes)
    }


@given(RUNGS, LATEST, st.integers(2, 4), st.booleans())
def test_the_trials_that_continue_in_successive_halving_are_the_best_part_of_each_rung(
    rungs: Rungs, latest: dict[int, Point], reduction: int, maximizes: bool
) -> None:
    options = SweepEarlyStopping(method="Asha", min_steps=1, reduction=reduction)
    found, stopped = asha(options, rungs, latest, maximizes=maximizes)
    arrivals = [(step, trial) for step, values in found.items() for trial in values.keys() - rungs.get(step, {}).keys()]
    best = {
        step: order_of_merit(values, maximizes=maximizes)[: max(1, len(values) // reduction)]
        for step, values in found.items()
    }
    assert stopped == {trial for step, trial in arrivals if trial not in best[step]}


@pytest.mark.parametrize("value", [1.7e308, -1.7e308])
def test_values_whose_sum_is_no_number_have_a_median(value: float) -> None:
    rungs = {step: dict.fromkeys(range(3), value) for step in (100, 200)}
    assert median(MEDIAN, rungs, {3: Point(200, 0.0)}, maximizes=value > 0)[1] == {3}


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
