"""`tfdist_trainer.keras.Progress`: right totals wherever `fit` starts and ends, and no failure of the script."""

import json
import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdist_trainer.fit_progress import FitProgress
from tfdist_trainer.scalars import count, finite_number, finite_numbers

PROGRAM = Path(__file__).parents[1] / "support/programs/fits.py"
Fits = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module", params=["0", pytest.param("1", marks=pytest.mark.long)], ids=["keras", "tf_keras"])
def legacy(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture(scope="module")
def output(legacy: str, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines of `fits.py`: the choice of the Keras and of the devices holds for a whole process."""
    environ = os.environ | {"TF_USE_LEGACY_KERAS": legacy, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, str(PROGRAM), str(tmp_path_factory.mktemp("fits"))]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def fits(output: list[str]) -> Fits:
    loaded: Fits = json.loads(output[-1])
    return loaded


def steps(reports: list[dict[str, Any]], hook: str) -> list[tuple[int, int | None]]:
    return [(report["step"], report["total_steps"]) for report in reports if report["hook"] == hook]


@pytest.mark.trainer
@pytest.mark.parametrize(
    ("way", "first", "last"),
    [
        ("mirrored", (0, 16), (16, 16)),
        ("resumed_by_initial_epoch", (24, 48), (48, 48)),
        ("resumed_by_backup", (16, 48), (48, 48)),
        ("several_steps_per_execution", (0, 16), (16, 16)),
        ("stopped_early", (0, 40), (16, 16)),
        ("unknown_length", (0, None), (24, 24)),
    ],
)
def test_the_total_holds_from_the_first_batch_on(
    fits: Fits, way: str, first: tuple[int, int | None], last: tuple[int, int]
) -> None:
    assert steps(fits[way], "batch begin")[0] == first
    assert steps(fits[way], "train end") == [last]


@pytest.mark.trainer
def test_a_fit_that_resumes_within_an_epoch_ends_at_its_total(fits: Fits, legacy: str) -> None:
    # With the variables of batch 4, Keras 3 repeats the epoch from its first batch, and tf_keras continues at batch 4.
    total = 48 if legacy == "1" else 52
    reports = fits["resumed_within_an_epoch"]
    assert steps(reports, "batch begin")[0] == (20, total)
    assert steps(reports, "train end") == [(total, total)]


@pytest.mark.trainer
def test_an_unknown_length_is_known_after_the_first_epoch(fits: Fits) -> None:
    assert steps(fits["unknown_length"], "epoch end") == [(8, 24), (16, 24), (24, 24)]
    assert {total for _, total in steps(fits["unknown_length"], "batch end")[:8]} == {None}


@pytest.mark.trainer
def test_a_second_fit_continues_the_steps_and_has_its_own_total(fits: Fits) -> None:
    assert steps(fits["twice_in_one_process"], "train end") == [(16, 16), (24, 24)]
    assert steps(fits["twice_in_one_process"], "batch begin")[16] == (16, 24)
    assert [report["epoch"] for report in fits["twice_in_one_process"] if report["hook"] == "train end"] == [2, 1]


@pytest.mark.trainer
def test_metrics_of_batches_under_several_replicas_are_those_of_the_last_epoch_in_tf_keras(
    fits: Fits, legacy: str
) -> None:
    batches = [report["metrics"] for report in fits["mirrored"] if report["hook"] == "batch end"]
    first, second = (report["metrics"] for report in fits["mirrored"] if report["hook"] == "epoch end")
    assert 0 <= first["accuracy"] <= 1
    if legacy == "1":
        assert batches == [{}] * 8 + [first] * 8
    else:
        assert (batches[7], batches[15]) == (first, second)


@pytest.mark.trainer
def test_a_vector_metric_is_left_out(fits: Fits) -> None:
    [end] = [report for report in fits["vector_metric"] if report["hook"] == "train end"]
    assert set(end["metrics"]) == {"loss", "accuracy"}


@pytest.mark.trainer
def test_an_exception_in_the_callback_is_logged_once_and_training_continues(fits: Fits, output: list[str]) -> None:
    assert len(steps(fits["failing_callback"], "batch end")) == 8
    [logged] = [line for line in output if " no-report " in line]
    assert 'hook=on_epoch_begin reason="TypeError: ' in logged


class Mirrored:
    """As `MirroredVariable`: `float` rejects it."""

    shape = ()

    def numpy(self) -> np.int64:
        return np.int64(7)


class Symbolic:
    shape = ()

    def numpy(self) -> float:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3.0),
        (-0.5, -0.5),
        (Fraction(1, 2), 0.5),
        (np.float32(0.5), 0.5),
        (np.int64(-2), -2.0),
        (np.array(4.0), 4.0),
        (Mirrored(), 7.0),
        (np.array([0.5]), None),
        (np.zeros([2, 2]), None),
        ([0.5], None),
        ({"a": 1}, None),
        ("0.5", None),
        (b"1", None),
        (np.str_("1"), None),
        (np.array("1"), None),
        (None, None),
        (True, None),
        (np.True_, None),
        (1j, None),
        (np.complex64(1), None),
        (np.datetime64(1, "s"), None),
        (math.nan, None),
        (np.float32("inf"), None),
        (10**400, None),
        (Symbolic(), None),
        (object(), None),
    ],
)
def test_only_one_finite_number_is_a_number(value: Any, number: float | None) -> None:
    assert finite_number(value) == number
    assert finite_numbers({"x": value}) == ({} if number is None else {"x": number})


@pytest.mark.parametrize("value", [-1, -2, math.inf, 2**60, "5", None, [3]])
def test_what_is_not_a_count_is_left_out(value: Any) -> None:
    assert count(value) is None


@pytest.mark.parametrize("values", [None, 5, ["loss", 1], "loss"])
def test_metrics_that_are_not_a_mapping_are_left_out(values: Any) -> None:
    assert finite_numbers(values) == {}


def test_without_an_optimizer_the_steps_follow_from_the_epoch() -> None:
    fit = FitProgress(steps_per_epoch=8, epochs=6)
    fit.begin_epoch(3, iterations=None)
    assert fit.begin_batch(0)
    assert (fit.step, fit.total) == (24, 48)


@pytest.mark.parametrize(("iterations", "batch"), [(0, 0), (0, 2), (None, 2)])
def test_an_optimizer_that_a_model_does_not_use_has_no_steps_after_a_restart(
    iterations: int | None, batch: int
) -> None:
    # given a GAN with optimizers of its own, which resumes in its fourth epoch
    fit = FitProgress(5, 4)
    fit.begin_epoch(3, iterations=iterations)
    # when its first batch of this process has ended
    assert fit.begin_batch(batch)
    fit.end_batch(batch)
    # then the steps are those of all attempts
    assert (fit.step, fit.total) == (15 + batch + 1, 20)


def test_a_fit_without_an_epoch_left_is_complete() -> None:
    fit = FitProgress(steps_per_epoch=8, epochs=6)
    fit.end(iterations=48)
    assert (fit.step, fit.total) == (48, 48)


def test_a_last_execution_with_fewer_steps_counts_those_that_ran() -> None:
    fit = FitProgress(steps_per_epoch=10, epochs=2)
    fit.begin_epoch(0, iterations=0)
    fit.begin_batch(0)
    fit.end_batch(3)
    assert not fit.begin_batch(4)
    fit.end_batch(11)  # the executions have 4 steps
    assert (fit.step, fit.total) == (10, 20)
