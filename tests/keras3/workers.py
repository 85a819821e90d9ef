"""Programs by several workers, or by one process, on this machine, and comparisons of what they have trained."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from support.forked import Fork
from support.polling import wait_for
from support.ports import free_ports

HANGS_SECONDS: Final = 280.0
"""Reached only by workers that hang."""

Arrays = dict[str, npt.NDArray[Any]]


def results(program: Sequence[str], folder: Path, configs: list[str | None]) -> list[Arrays]:
    """Run a program in processes that share a folder, one for each `TF_CONFIG`, and return what each has trained.

    Args:
        program: path of a script with its options; the file for its results follows them.
        folder: working directory, which is created.
        configs: `TF_CONFIG` of each process; None for none, which is Keras alone: all others get `--enable`.
    """
    folder.mkdir()
    runs = [Run(program, folder, number, config) for number, config in enumerate(configs)]
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
    """A process that runs a program."""

    def __init__(self, program: Sequence[str], folder: Path, number: int, tf_config: str | None) -> None:
        self._results = folder.parent / f"{folder.name}-{number}.npz"
        self._output = folder.parent / f"{folder.name}-{number}.txt"
        environ = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
        environ |= {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
        environ |= {"TF_CONFIG": tf_config} if tf_config else {}
        script = [*program, str(self._results), *(["--enable"] if tf_config else [])]
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

    wait_for(f"{len(runs)} processes", have_ended, seconds=HANGS_SECONDS, context=outputs)


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
