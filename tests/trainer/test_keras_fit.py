"""`fit` of Keras 3 by two workers: equal on both, and equal to one process on the same batches."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from support.forked import Fork
from support.polling import WAIT_SECONDS
from support.ports import free_ports

pytestmark = pytest.mark.trainer

PROGRAM: Final = Path(__file__).parents[1] / "support/programs/keras_fit.py"
START: Final = (
    "import sys\n"
    "from tfdist_trainer import keras_import, script_end\n"
    "from tfdist_trainer.python_command import CommandKind, PythonCommand\n"
    "keras_import.install()\n"
    "script_end.run(PythonCommand(CommandKind.SCRIPT, sys.argv[1], tuple(sys.argv[2:])))"
)
"""What `tfdist_trainer_keras.pth` does in a replica, which runs a script so that its end is known."""
EQUAL: Final = (
    *("data_set", "class_weight", "accumulation", "own_train_step", "decision_of_one_worker"),
    *("fewer_rows_than_workers", "fewer_rows_of_synchronized_statistics", "zipped"),
    *(
        pytest.param(way, marks=pytest.mark.long)
        for way in (
            *("arrays", "sum_of_losses", "mean_over_weights", "loss_scale", "moving_average", "steps_per_execution"),
            *("masked", "embedding", "jit_compile", "run_eagerly", "each_batch", "unknown_length"),
        )
    ),
)
"""Ways to train in which the mathematics of two workers is that of one process."""
OTHERS: Final = (
    *("generator", "predict", "sharded_by_file", "batch_normalization", "decision_of_one_worker", "files"),
    *("compiled_outside", "built_outside", "idioms", "written_by_subclasses", "own_lengths", "other_calls"),
    *("graphs", "own_data"),
)
"""What further tests ask for."""
ENVIRON: Final = os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
Results = dict[str, dict[str, Any]]


def start(program: Path, arguments: list[str], tf_config: dict[str, Any]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", START, str(program), *arguments]
    environ = ENVIRON | {"TF_CONFIG": json.dumps(tf_config)}
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def workers(arguments: list[list[str]], program: Path = PROGRAM) -> list[subprocess.Popen[str]]:
    """Start a worker of `program` for each list of arguments."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(len(arguments))]
    return [
        start(program, own, {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
        for index, own in enumerate(arguments)
    ]


@pytest.fixture(scope="module")
def outputs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Results, str, int]]:
    """Results, output and exit code of both workers, and of one process without a strategy, for the tests that run."""
    own = [item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function)]
    ways = [str(item.callspec.params["way"]) for item in own if hasattr(item, "callspec")]
    cases = ",".join(dict.fromkeys((*ways, *OTHERS)))
    folder = tmp_path_factory.mktemp("fits")
    files = [folder / f"{name}.json" for name in ("first", "second", "alone")]
    (folder / "alone").mkdir()
    files[2] = folder / "alone/results.json"
    running = workers([[str(files[0]), cases, "--fail"], [str(files[1]), cases, "--fail"]])
    alone = Fork(ENVIRON, folder / "alone.txt", [str(PROGRAM), str(files[2]), cases, "--alone"])
    texts = [process.communicate()[0] for process in running]
    codes = [*(process.returncode for process in running), alone.wait(WAIT_SECONDS)]
    texts.append((folder / "alone.txt").read_text())
    for file, text in zip(files, texts, strict=True):
        assert file.exists(), text
    return [(json.loads(file.read_text()), text, code) for file, text, code in zip(files, texts, codes, strict=True)]


@pytest.fixture(scope="module")
def results(outputs: list[tuple[Results, str, int]]) -> tuple[Results, Results, Results]:
    first, second, alone = (result for result, _, _ in outputs)
    return first, second, alone


def flat(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for key in sorted(value) for number in flat(value[key])]
    return [number for each in value for number in flat(each)] if isinstance(value, list) else [float(value)]


@pytest.mark.parametrize("way", EQUAL)
def test_two_workers_train_as_one_process(results: tuple[Results, Results, Results], way: str) -> None:
    first, second, alone = results
    assert first[way] == second[way]
    assert set(first[way]["history"]) == set(alone[way]["history"])
    np.testing.assert_allclose(flat(first[way]), flat(alone[way]), rtol=1e-5, atol=1e-5)


def test_each_example_of_a_data_set_that_is_sharded_by_file_counts_once(
    results: tuple[Results, Results, Results],
) -> None:
    first, second, alone = (result["sharded_by_file"]["labels"] for result in results)
    assert first == second == pytest.approx(alone, abs=1e-6)


def test_no_batch_of_a_generator_is_lost(results: tuple[Results, Results, Results]) -> None:
    assert [each["generator"]["steps"] for each in results[:2]] == [5, 5]


def test_predictions_are_in_the_order_of_the_rows(results: tuple[Results, Results, Results]) -> None:
    for result in results[:2]:
        assert result["predict"] == pytest.approx({"array": 0.0, "data": 0.0, "pair of arrays": 0.0}, abs=1e-6)


def test_statistics_of_batch_normalization_are_equal_on_all_workers(results: tuple[Results, Results, Results]) -> None:
    first, second, _ = results
    assert first["batch_normalization"] == second["batch_normalization"]
    assert np.isfinite(flat(first["batch_normalization"])).all()


def test_a_decision_of_another_worker_than_the_chief_is_in_the_log(outputs: list[tuple[Results, str, int]]) -> None:
    assert "decision-differs worker=1 of=learning_rate value=0.5 chief=0.001" in outputs[0][1]


def test_only_the_chief_writes_files(results: tuple[Results, Results, Results]) -> None:
    first, second, _ = results
    expected = ["best.keras", "exported", "last.keras", "last.weights.h5", "log.csv", "logs"]
    assert first["files"]["files"] == expected
    assert second["files"]["files"] == []
    assert first["files"]["history"] == second["files"]["history"]


def test_an_optimizer_made_outside_of_the_scope_is_an_error_that_names_the_remedy(
    results: tuple[Results, Results, Results],
) -> None:
    for result in results[:2]:
        assert result["compiled_outside"]["error"].startswith("The optimizer 'adam")
        assert "inside of `with strategy.scope():`" in result["compiled_outside"]["error"]


def test_weights_made_outside_of_the_scope_and_stateful_layers_are_errors_that_name_the_remedy(
    results: tuple[Results, Results, Results],
) -> None:
    for result in results[:2]:
        errors = result["built_outside"]
        assert "dense" in errors["called"]
        assert "kernel' of 'own_step" in errors["called"]
        assert "lora_kernel_a' of 'sequential" in errors["adapted"]
        for name in ("called", "adapted"):
            assert "was made outside of the scope" in errors[name]
            assert "Build the model inside of `with strategy.scope():` too" in errors[name]
        assert "The layer 'lstm" in errors["stateful"]
        assert "Use stateful=False" in errors["stateful"]


def test_subclasses_of_callbacks_that_write_run_on_all_workers_and_write_on_the_chief(
    results: tuple[Results, Results, Results],
) -> None:
    first, second, alone = (result["written_by_subclasses"] for result in results)
    assert first["history"] == second["history"]
    np.testing.assert_allclose(flat(first["history"]), flat(alone["history"]), rtol=1e-5, atol=1e-5)
    assert first["evaluated"] == alone["evaluated"] == 1
    # then the chief writes the files, points and profiles of one process, also by the names of `tf.keras`
    for name in ("files", "points", "profiles"):
        assert first[name] == alone[name] != []
        assert second[name] == []


def test_idioms_of_one_process_run_unchanged(
    results: tuple[Results, Results, Results], outputs: list[tuple[Results, str, int]]
) -> None:
    first, second, alone = (result["idioms"] for result in results)
    assert first == second
    # then the learning rate and the step of an optimizer are numbers in a callback
    assert first["seen"] == alone["seen"]
    # then random numbers without a seed are drawn in each step, and an optimizer of the script updates by the kernel
    assert len(set(first["history"]["scale"])) == len(first["history"]["scale"])
    assert np.isfinite(flat(first["weights"])).all()
    assert "hook-missing" not in outputs[0][1]


def test_data_of_another_length_on_each_worker_is_an_error_before_the_first_step(
    results: tuple[Results, Results, Results],
) -> None:
    first, second, _ = (result["own_lengths"] for result in results)
    assert first == second
    assert first.pop("steps") == "0"
    for error in first.values():
        assert error.startswith("The workers have different numbers of batches in ")
    assert "in fit: worker 0 has 6, worker 1 has 3. Give all workers the same arrays" in first["arrays"]
    assert "in the validation of fit: worker 0 has 6, worker 1 has 3." in first["validation arrays"]
    assert "in predict: worker 0 has 6, worker 1 has 3." in first["predict"]


def test_other_data_on_each_worker_is_an_error_of_arrays_and_in_the_log_of_a_data_set(
    outputs: list[tuple[Results, str, int]],
) -> None:
    for result, text, _ in outputs[:2]:
        errors = result["own_data"]
        assert errors.pop("arrays").startswith("worker 0 and worker 1 have different data in fit: each worker takes")
        assert errors.pop("validation").startswith("worker 0 and worker 1 have different data in the validation of fit")
        assert set(errors.values()) == {""}
        assert text.count('data-differs workers="0 and 1" of=fit') == 1, "neither augmented nor distributed data"
        assert text.count("rows-unused reason=") == 1, "that with AutoShardPolicy.OFF"


def test_a_batch_that_is_a_graph_is_an_error_before_the_first_step(results: tuple[Results, Results, Results]) -> None:
    for result in results[:2]:
        assert "its own: x has 5, y has 10." in result["graphs"]["error"]
        assert result["graphs"]["steps"] == 0


def test_a_call_of_the_chief_alone_is_an_error_that_names_the_call_of_each_worker(
    results: tuple[Results, Results, Results],
) -> None:
    first, second, _ = (result["other_calls"] for result in results)
    expected = {
        "at the end of an epoch": "worker 0 is in predict in a callback of fit, worker 1 is in fit.",
        "at the beginning": "worker 0 is in evaluate in a callback of fit, worker 1 is in fit.",
        "after fit": "worker 0 is in predict, worker 1 is in evaluate.",
    }
    assert first == second
    for name, calls in expected.items():
        assert f"The workers are in different calls of Keras: {calls}" in first[name]


def test_a_failed_fit_ends_the_process_with_the_exception_and_code_1(outputs: list[tuple[Results, str, int]]) -> None:
    for _, text, code in outputs[:2]:
        assert code == 1, text
        assert "Error" in text.splitlines()[-1], text
