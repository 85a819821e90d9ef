"""`train_step`s and metrics of a script that change variables by themselves, on two workers and on one."""

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from support.forked import Fork
from support.polling import WAIT_SECONDS
from trainer.test_keras_fit import ENVIRON, flat, workers

pytestmark = pytest.mark.trainer

PROGRAM: Final = Path(__file__).parents[1] / "support/programs/keras_own_steps.py"
Results = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Results, str]]:
    """Results and output of both workers, and of one process without a strategy."""
    folder = tmp_path_factory.mktemp("own-steps")
    files = [folder / f"{name}.json" for name in ("first", "second", "alone")]
    running = workers([[str(files[0])], [str(files[1])]], PROGRAM)
    alone = Fork(ENVIRON, folder / "alone.txt", [str(PROGRAM), str(files[2]), "--alone"])
    texts = [process.communicate()[0] for process in running]
    alone.wait(WAIT_SECONDS)
    texts.append((folder / "alone.txt").read_text())
    for file, text in zip(files, texts, strict=True):
        assert file.exists(), text
    return [(json.loads(file.read_text()), text) for file, text in zip(files, texts, strict=True)]


@pytest.mark.parametrize("way", ["descent", "eager", "momentum", "compiled", "lookahead", "moving_average"])
def test_weights_that_a_step_assigns_itself_are_those_of_one_process(
    outputs: list[tuple[Results, str]], way: str
) -> None:
    first, second, alone = (results[way] for results, _ in outputs)
    assert first == second
    np.testing.assert_allclose(flat(first), flat(alone), rtol=1e-5, atol=1e-6)


def test_weights_that_ascend_and_return_by_gradients_of_a_worker_are_equal_on_all(
    outputs: list[tuple[Results, str]],
) -> None:
    assert outputs[0][0]["sharpness_aware"] == outputs[1][0]["sharpness_aware"]


def test_the_log_names_weights_that_a_step_assigns_values_of_its_batch(outputs: list[tuple[Results, str]]) -> None:
    text = outputs[0][1]
    assert text.count("weights-averaged model=descent variable=descent/dense/kernel of=4 ") == 1, text
    assert "weights-averaged model=sharpnessaware " in text
    assert "weights-averaged model=movingaverage " not in text


def test_the_log_names_a_worker_whose_weights_differ_and_the_variable(outputs: list[tuple[Results, str]]) -> None:
    text = outputs[0][1]
    assert outputs[0][0]["hidden"] != outputs[1][0]["hidden"]
    named = [line for line in text.splitlines() if " weights-differ " in line]
    assert named, text
    assert all("model=hidden worker=1 variable=hidden/" in line for line in named)


@pytest.mark.parametrize("way", ["noise", "eager_noise"])
def test_each_worker_draws_random_numbers_of_its_own_in_a_step(outputs: list[tuple[Results, str]], way: str) -> None:
    first, second = (results[way]["weights"][-1] for results, _ in outputs[:2])
    assert all(of_first != of_second for of_first, of_second in zip(first, second, strict=True)), (first, second)


def test_random_numbers_of_a_step_are_the_same_after_the_same_seed(outputs: list[tuple[Results, str]]) -> None:
    for results, _ in outputs:
        assert results["noise"] == results["noise_again"]


def test_all_workers_shuffle_alike(outputs: list[tuple[Results, str]]) -> None:
    assert outputs[0][0]["shuffled"] == outputs[1][0]["shuffled"]


@pytest.mark.parametrize("call", ["fit", "evaluate"])
def test_metrics_of_a_script_are_those_of_one_process(outputs: list[tuple[Results, str]], call: str) -> None:
    first, second, alone = (results["metrics"][call] for results, _ in outputs)
    assert first == second
    assert first == pytest.approx(alone, rel=1e-5)


def test_the_log_names_a_metric_whose_state_is_an_average(outputs: list[tuple[Results, str]]) -> None:
    named = [line for line in outputs[0][1].splitlines() if " metric-not-a-sum " in line]
    assert ["state=smoothed/" in line for line in named] == [True, True], named  # of fit and of evaluate


@pytest.mark.parametrize("way", ["positions", "sparse"])
def test_an_optimizer_squares_rows_that_a_batch_has_once_as_one_process_does(
    outputs: list[tuple[Results, str]], way: str
) -> None:
    first, second, alone = (results[way] for results, _ in outputs)
    assert first == second
    np.testing.assert_allclose(flat(first), flat(alone), rtol=1e-4, atol=1e-5)
