"""A small program for the trainer that stops at places of a test's choice, until the test kills it or lets it go on.

The test names the places in the environment of the replica, in their order (`HOLD_AT`). When it has come to one the
replica makes the file `HOLD_FILE`, and goes on when that is gone.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

import tfdist_trainer
from tfdist.contract import JOB_ENV
from tfdist_trainer.strategies import build, rendezvous, servers

EXAMPLES: Final = 13
COMPUTES: Final = "a step is computed"


def hold(place: str) -> None:
    """Stop at `place`, if it is the next one that is waited for."""
    first, *rest = os.environ.get("HOLD_AT", "").split(",")
    if not first or first != place:
        return
    os.environ["HOLD_AT"] = ",".join(rest)
    file = Path(os.environ["HOLD_FILE"])
    file.touch()
    while file.exists():
        time.sleep(0.02)


def held(function: Callable[..., Any], before: str, after: str = "") -> Callable[..., Any]:
    """Return `function` with the place `before` it, and another one after it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        hold(before)
        result = function(*args, **kwargs)
        hold(after)
        return result

    return call


class Loss(tfdist_trainer.WeightedMean):
    """The loss again; it is computed between two executions of steps."""

    def __init__(self, value: Callable[..., tf.Tensor]) -> None:
        super().__init__("again", value)

    def result(self, sums: Any) -> float:
        if sums[1] > 0:
            hold("between")
        return super().result(sums)


class Line(tfdist_trainer.Program):
    """Fits a line through points that are all on it."""

    def model(self) -> keras.Model:
        return keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1)])

    def dataset(self, _split: Any, shard: Any) -> tf.data.Dataset:
        x = np.linspace(-1, 1, EXAMPLES, dtype=np.float32)[:, np.newaxis]
        return tf.data.Dataset.from_tensor_slices((x, 3 * x)).shard(shard.count, shard.index)

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        hold("compiling")
        tf.print(COMPUTES)  # wherever the step is computed
        return tf.reduce_sum((labels - predictions) ** 2, axis=-1)

    def optimizer(self, scale: float) -> keras.optimizers.Optimizer:
        return keras.optimizers.SGD(0.01 * scale)

    def metrics(self) -> Sequence[tfdist_trainer.WeightedMean]:
        return [Loss(lambda labels, predictions: tf.reduce_sum((labels - predictions) ** 2, axis=-1))]


if JOB_ENV in os.environ:  # in a replica, not in the test, which imports this module too
    if "CONNECT_SECONDS" in os.environ:
        build.CONNECT_SECONDS = rendezvous.HANDOVER_SECONDS = float(os.environ["CONNECT_SECONDS"])  # type: ignore[misc]
    if "PATIENCE_SECONDS" in os.environ:
        servers.PATIENCE_SECONDS = float(os.environ["PATIENCE_SECONDS"])  # type: ignore[misc]
    # The class is imported before the members meet, and TensorFlow is called later.
    tf.distribute.MultiWorkerMirroredStrategy = held(tf.distribute.MultiWorkerMirroredStrategy, "connecting")
    tf.distribute.ParameterServerStrategy = held(tf.distribute.ParameterServerStrategy, "connecting")
    tf.train.Checkpoint.write = held(tf.train.Checkpoint.write, "saving", "written")
    tf.train.Checkpoint.read = held(tf.train.Checkpoint.read, "reading")
    hold("starting")
