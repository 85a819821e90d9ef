"""The values of each trial of a sweep."""

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sweeps import PARAMETERS, sweep_manifest

from tfdist.api.sweep import TFDistSweep, TFDistSweepSpec
from tfdist.sweeps.values import grid_size, trial_count, trial_values


def sweep(*parameters: dict[str, Any], **search: Any) -> TFDistSweepSpec:
    made = sweep_manifest(parameters=list(parameters), search=search)
    return TFDistSweep.model_validate(made).spec


def ranged(low: float, high: float, **more: Any) -> dict[str, Any]:
    return {"name": "x", "range": {"min": low, "max": high, **more}}


def test_the_values_of_a_trial_are_the_same_in_every_process() -> None:
    # given values that another process has computed
    spec = sweep(*PARAMETERS, seed=7)
    # then they are the same here, so that a controller need not store them
    assert trial_values(spec, 3) == {
        "learningRate": pytest.approx(0.054273962106361914),
        "batchSizePerReplica": 32,
        "precision": "float16",
        "warmup": 800,
    }


def test_another_parameter_changes_no_value_of_the_first() -> None:
    alone, both = sweep(PARAMETERS[0]), sweep(*PARAMETERS)
    assert all(trial_values(alone, k).items() <= trial_values(both, k).items() for k in range(20))


@given(
    low=st.integers(-1000, 1000),
    steps=st.integers(1, 50),
    step=st.sampled_from([1, 3, 0.1, 0.25, 1e-5]),
    seed=st.integers(0, 2**31),
)
def test_a_random_value_of_a_range_with_steps_is_one_of_its_steps(low: int, steps: int, step: float, seed: int) -> None:
    spec = sweep(ranged(low, low + steps * step + step / 2, step=step), seed=seed)
    for trial in range(10):
        value = trial_values(spec, trial)["x"]
        assert isinstance(value, int) == isinstance(step, int)
        number = (value - low) / step
        assert number == pytest.approx(round(number), abs=1e-6)
        assert 0 <= round(number) <= steps


@given(low=st.floats(1e-9, 1e3), factor=st.floats(1.001, 1e9), scale=st.sampled_from(["Linear", "Log"]))
def test_a_random_value_is_within_its_range(low: float, factor: float, scale: str) -> None:
    spec = sweep(ranged(low, low * factor, scale=scale))
    assert all(low <= trial_values(spec, trial)["x"] <= low * factor for trial in range(10))


@pytest.mark.parametrize(("scale", "middle"), [("Log", 1e-2), ("Linear", 0.50005)])
def test_random_values_are_uniform_on_their_scale(scale: str, middle: float) -> None:
    # given 500 trials between 0.0001 and 1
    spec = sweep(ranged(1e-4, 1, scale=scale), trials=500)
    values = sorted(trial_values(spec, trial)["x"] for trial in range(500))
    # then each quarter of the scale has about a quarter of them
    assert 200 < sum(value < middle for value in values) < 300
    position = math.log if scale == "Log" else float
    quarters = [math.floor(4 * (position(v) - position(1e-4)) / (position(1) - position(1e-4))) for v in values]
    assert all(90 < quarters.count(quarter) < 160 for quarter in range(4))


def test_the_ends_of_a_logarithmic_range_of_integers_are_found() -> None:
    spec = sweep(ranged(1, 64, step=1, scale="Log"), trials=500)
    values = [trial_values(spec, trial)["x"] for trial in range(500)]
    assert {min(values), max(values)} == {1, 64}
    assert values.count(1) > values.count(2) > values.count(9)


def test_a_grid_has_every_combination_once_and_the_last_parameter_varies_fastest() -> None:
    parameters = [{"name": "a", "values": ["x", "y"]}, ranged(0.1, 0.35, step=0.1), {"name": "b", "values": [[1], [2]]}]
    spec = sweep(*parameters, method="Grid")
    assert (grid_size(spec.parameters), trial_count(spec)) == (12, 12)
    found = [tuple(trial_values(spec, trial).values()) for trial in range(12)]
    assert found == list(itertools.product(["x", "y"], [0.1, 0.2, 0.3], [[1], [2]]))


def test_fewer_trials_than_a_grid_has_are_its_first_ones() -> None:
    assert trial_count(sweep({"name": "a", "values": [1, 2, 3]}, method="Grid", trials=2)) == 2


def test_a_grid_over_a_range_without_steps_has_no_number_of_trials() -> None:
    with pytest.raises(ValueError, match=r"parameter x has no finite number of values; set values, or range\.step"):
        trial_count(sweep(ranged(0, 1), method="Grid"))


def test_a_list_names_the_values_of_each_trial() -> None:
    given_values = [{"x": 0.5}, {"x": 0.25}]
    spec = sweep(ranged(0, 1), method="List", list=given_values)
    assert [trial_values(spec, trial) for trial in range(trial_count(spec))] == given_values


def test_a_random_search_has_ten_trials_by_default() -> None:
    assert trial_count(sweep(ranged(0, 1))) == 10
