"""A user's Keras script, unmodified, on two workers: both end with the same numbers, and with those of one process."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
from support.forked import Fork
from support.polling import wait_for
from support.ports import free_ports

from .expected import EXPECTED, SCRIPTS, Equal

RUNNER: Final = Path(__file__).with_name("run_script.py")
QUICK: Final = {"custom_train_step", "image_classifier", "uneven_sizes"}
TIMEOUT_SECONDS: Final = 280.0
"""Reached only by workers that hang."""

Arrays = dict[str, npt.NDArray[Any]]


def scripts() -> list[Any]:
    """Return the names of the scripts; `make test` runs three of them."""
    marks = {name: () if name in QUICK else (pytest.mark.long,) for name in EXPECTED}
    return [pytest.param(name, marks=marks[name], id=name) for name in EXPECTED]


def test_each_script_has_an_expectation() -> None:
    assert sorted(path.stem for path in SCRIPTS.glob("*.py")) == sorted(EXPECTED)


@pytest.mark.trainer
@pytest.mark.parametrize("name", scripts())
def test_two_workers_end_with_the_same_numbers_as_one_process(name: str, tmp_path: Path) -> None:
    # given two workers in one folder, as pods share a volume
    first, second = results(name, tmp_path / "two", cluster(2))
    # then they have the same numbers
    assert_close(second, first, tolerance=0.0)
    # given one process without TF_CONFIG, where the mathematics is the same
    expected = EXPECTED[name]
    if isinstance(expected, Equal):
        options = ["--default-strategy"] if expected.without_strategy else []
        [alone] = results(name, tmp_path / "one", [None], options)
        # then it has these numbers too
        assert_close(first, alone, tolerance=expected.tolerance)


def results(name: str, folder: Path, configs: list[str | None], options: Sequence[str] = ()) -> list[Arrays]:
    """Run a script in processes that share a folder, one for each `TF_CONFIG`, and return what each has trained."""
    folder.mkdir()
    runs = [Run(name, folder, number, config, [*options]) for number, config in enumerate(configs)]
    try:
        wait_for_all(runs)
        return [run.results() for run in runs]
    finally:
        for run in runs:
            run.stop()


def cluster(size: int) -> list[str | None]:
    """Return `TF_CONFIG` of each worker of a cluster on this machine."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(size)]
    tasks = [{"type": "worker", "index": index} for index in range(size)]
    return [json.dumps({"cluster": {"worker": addresses}, "task": task}) for task in tasks]


class Run:
    """A process that runs a script."""

    def __init__(self, name: str, folder: Path, number: int, tf_config: str | None, options: list[str]) -> None:
        self._results = folder.parent / f"{folder.name}-{number}.npz"
        self._output = folder.parent / f"{folder.name}-{number}.txt"
        environ = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
        environ |= {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
        environ |= {"TF_CONFIG": tf_config} if tf_config else {}
        # Without TF_CONFIG it is Keras alone, with which the engine is compared.
        options = [*options, *(["--enable"] if tf_config else [])]
        script = [str(RUNNER), *options, str(SCRIPTS / f"{name}.py"), str(self._results)]
        self._process = Fork(environ, self._output, script, folder)

    @property
    def text(self) -> str:
        return self._output.read_text(errors="replace")

    def poll(self) -> int | None:
        return self._process.poll()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def results(self) -> Arrays:
        with np.load(self._results) as arrays:
            return dict(arrays)


def wait_for_all(runs: list[Run]) -> None:
    """Return when all have ended well; a worker that waits for one that has failed would wait until the limit.

    Raises:
        AssertionError: one has failed, or has not ended in time; the message has the outputs.
    """

    def outputs() -> str:
        return "\n".join(f"--- {number}\n{run.text[-8000:]}" for number, run in enumerate(runs))

    def have_ended() -> bool:
        codes = [run.poll() for run in runs]
        assert not any(codes), f"ended with {codes}\n{outputs()}"
        return None not in codes

    wait_for(f"{len(runs)} processes", have_ended, seconds=TIMEOUT_SECONDS, context=outputs)


def assert_close(actual: Arrays, expected: Arrays, *, tolerance: float) -> None:
    """Compare all arrays; the message names each that differs, and by how much."""
    assert actual, "the script has left no result"
    assert sorted(actual) == sorted(expected)
    far = [line for key in sorted(expected) if (line := difference(key, actual[key], expected[key], tolerance))]
    assert not far, "\n".join(far)


def difference(key: str, actual: npt.NDArray[Any], expected: npt.NDArray[Any], tolerance: float) -> str | None:
    """Return what is wrong with an array, or None."""
    if actual.shape != expected.shape:
        return f"{key}: shape {actual.shape}, expected {expected.shape}"
    if tolerance == 0.0 or expected.dtype.kind not in "fc":
        return None if np.array_equal(actual, expected) else f"{key}: {actual}, expected {expected}"
    assert np.isfinite(expected).all(), f"{key}: {expected}"
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    error = float(np.abs(actual.astype("float64") - expected.astype("float64")).max(initial=0.0)) / scale
    return None if error <= tolerance else f"{key}: differs by {error:.1e}, more than {tolerance:.0e}"
