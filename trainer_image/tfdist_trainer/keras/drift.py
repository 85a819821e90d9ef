"""Weights that differ between workers, which compute gradients of different models then: found at the end of an epoch.

A step that changes variables of TensorFlow by itself, weights that a callback draws or reads from a file of its own
worker, and a pretrained model that only one worker has loaded make them differ. Only the chief's weights are saved.
"""

import os
import time
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdist_trainer import environment, log, script_end
from tfdist_trainer.errors import ConfigurationError, TrainerError
from tfdist_trainer.keras.calls import Comparison
from tfdist_trainer.keras.needs import asks_for_one_training

_TOLERANCE: Final = 1e-3
"""Relative distance of a variable from the chief's. Rounding on other hardware is below, and all else is above."""
_SMALLEST: Final = 1e-6
"""Size of an element, the differences of which do not count."""
_SHARE: Final = 0.005
"""Share of the time of `fit` that comparisons may take after the first one."""
_NOT_FINITE: Final = 1e30
"""Stands for a sum that is NaN or infinite, and is equal to itself."""


class DriftCheck:
    """Compares the weights of all workers, as often as the time that it takes allows."""

    def __init__(self) -> None:
        self._ended_at, self._seconds = -float("inf"), 0.0

    def is_due(self) -> bool:
        """Return whether this worker has the time to compare; the chief's decision holds for all."""
        return time.monotonic() - self._ended_at >= self._seconds / _SHARE

    def compare(self, model: Any, comparison: Comparison) -> None:
        """Log a worker whose weights differ from the chief's, by the variable that differs most; a collective.

        A job that asks for one training, by `checkpoint` or `training.export`, ends.
        """
        started_at = time.monotonic()
        # Counters and seeds differ by design.
        variables = [each for each in model.variables if tf.as_dtype(each.dtype).is_floating]
        if variables:
            distances = _distances(variables, comparison)
            first = int(distances.argmax())
            for worker, (distance, place) in enumerate(comparison.gather(distances[first], first)):
                if distance > _TOLERANCE:
                    _report(model, worker, variables[int(place)].path, float(distance))
                    break
        self._ended_at = time.monotonic()
        self._seconds = self._ended_at - started_at


def _report(model: Any, worker: int, variable: str, distance: float) -> None:
    text = (
        "the weights of the workers differ, so each trains a model of its own, and only the chief's is saved: change "
        "weights in a step by an optimizer or by assign of Keras' variables, and elsewhere by equal values on all "
        "workers"
    )
    log.event(
        "weights-differ", model=model.name, worker=worker, variable=variable, distance=f"{distance:.2g}", reason=text
    )
    if _job_asks_for_one():
        script_end.leave_with(ConfigurationError(f"worker {worker}, {variable} of {model.name}: {text}"))


def _job_asks_for_one() -> bool:
    try:
        job, _ = environment.read_replica(os.environ)
    except TrainerError:  # not in a job
        return False
    return asks_for_one_training(job)


def _distances(variables: list[Any], comparison: Comparison) -> npt.NDArray[np.float64]:
    """Return the estimated distance of each variable from the chief's, relative to its norm; a collective."""
    sums = np.array([_sums(each.numpy()) for each in variables], np.float64)
    # NaN differs from itself: without this, equal weights that have diverged would be reported as different.
    sums[~np.isfinite(sums)] = _NOT_FINITE
    of_chief = comparison.chief_values(sums.ravel()).reshape(sums.shape)
    # Near zero, rounding is as large as the value.
    smallest = [_SMALLEST * np.sqrt(np.prod(each.shape)) for each in variables]
    distances: npt.NDArray[np.float64] = np.abs(sums - of_chief).max(axis=1) / (of_chief[:, 1] + smallest)
    return distances


def _sums(values: npt.NDArray[Any]) -> tuple[float, float]:
    """Return a sum of `values` with random weights, the variance of which is 1, and their norm.

    The difference of two such sums is on average the distance of the values (Johnson-Lindenstrauss, one projection).
    """
    columns = values.shape[-1] if values.ndim else 1
    # Two small vectors of weights in place of one as long as the variable.
    matrix = values.astype(np.float32, copy=False).reshape(-1, columns)
    flat = matrix.ravel()
    with np.errstate(all="ignore"):
        return float(_random(len(matrix)) @ (matrix @ _random(columns))), float(flat @ flat) ** 0.5


def _random(size: int) -> npt.NDArray[np.float32]:
    """Return random numbers of variance 1, equal on all workers, float32 [size]."""
    return np.float32(12**0.5) * (np.random.default_rng(size).random(size, np.float32) - np.float32(0.5))
