"""Programs for the trainer whose every replica writes down the number of each example that it trains on, step by step.

They can send themselves a signal in the middle of a step, so that a test decides when.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

import tfdist_trainer
from tfdist.contract_reports import ProgressReport
from tfdist_trainer.programs.tabular import Tabular
from tfdist_trainer.reporter import Reporter

EXAMPLES: Final = 25
JOURNAL: Final = "COUNT_JOURNAL"
"""Environment variable: the file with a line for each step, a list of numbers."""
SIGNAL: Final = "COUNT_SIGNAL"
"""Environment variable: `7:9` sends signal 9 in the 7th step of this process."""
REPORTS: Final = "COUNT_REPORTS"
"""Environment variable: the file with a line for each progress report, JSON."""


class Numbers(tfdist_trainer.WeightedMean):
    """The mean of the labels, which are the numbers of the examples; each step is written down."""

    def __init__(self) -> None:
        super().__init__("number", lambda labels, _predictions: labels)
        self._steps = 0

    def sums(self, labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        written = tf.numpy_function(self._write, [labels, weights], tf.int64)
        with tf.control_dependencies([written]):
            return super().sums(labels, predictions, weights)

    def _write(self, labels: Any, weights: Any) -> Any:
        self._steps += 1
        with Path(os.environ[JOURNAL]).open("a") as journal:
            journal.write(json.dumps([round(float(n)) for n, w in zip(labels, weights, strict=True) if w > 0]) + "\n")
        step, _, number = (os.environ.get(SIGNAL) or "0:0").partition(":")
        if int(step) == self._steps:
            os.kill(os.getpid(), int(number))
            while int(number) in signal.sigpending():
                time.sleep(0.001)  # it is taken before the steps go on, of which there are only so many
        return np.int64(0)


class FromFiles(Tabular):
    """Reads the numbers from files."""

    def metrics(self) -> Sequence[Any]:
        return [Numbers()]


class FromDataSet(tfdist_trainer.Program):
    """Reads them from a data set of its own."""

    def model(self) -> keras.Model:
        return keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1)])

    def dataset(self, _split: Any, shard: Any) -> tf.data.Dataset:
        numbers = np.arange(EXAMPLES, dtype=np.float32)
        return tf.data.Dataset.from_tensor_slices((numbers[:, np.newaxis], numbers)).shard(shard.count, shard.index)

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        return (labels - predictions[:, 0]) ** 2

    def metrics(self) -> Sequence[Any]:
        return [Numbers()]


def recorded(replace: Callable[..., None]) -> Callable[..., None]:
    """Return `replace` of the reporter, which also writes each report down."""

    def call(reporter: Reporter, report: ProgressReport) -> None:
        with Path(os.environ[REPORTS]).open("a") as reports:
            reports.write(f"{report.to_json()}\n")
        replace(reporter, report)

    return call


if REPORTS in os.environ:
    Reporter.replace = recorded(Reporter.replace)  # type: ignore[method-assign]
