"""A program for tests: every example has a number, and two metrics show whether an epoch saw each of them once.

Over the numbers -399, -397, ... 399 the mean `balance` is 0 and the mean of squares `spread` is 53,333. Steps are slow
enough to be interrupted, until there is a file `training.config.hurry`.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfdist_trainer

COUNT = 400
PACE_SECONDS = 0.002


class Counting(tfdist_trainer.Program):
    """Learns nothing, and counts."""

    def model(self) -> keras.Model:
        """Return a model of one layer."""
        return keras.Sequential([keras.layers.Input([4]), keras.layers.Dense(1)])

    def dataset(self, split: tfdist_trainer.Split, shard: tfdist_trainer.Shard) -> tf.data.Dataset:
        """Return numbers as labels, float32 []."""
        del split
        numbers = range(shard.index, COUNT, shard.count)
        hurry = Path(self.config.hurry)

        def read() -> Iterator[tuple[np.ndarray, float]]:
            pace = 0.0 if hurry.exists() else PACE_SECONDS
            for number in numbers:
                time.sleep(pace)
                yield np.ones(4, np.float32), 2.0 * number - (COUNT - 1)

        specification = (tf.TensorSpec([4], tf.float32), tf.TensorSpec([], tf.float32))
        data = tf.data.Dataset.from_generator(read, output_signature=specification)
        return data.apply(tf.data.experimental.assert_cardinality(len(numbers)))

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the square of each prediction."""
        del labels
        return tf.square(predictions[:, 0])

    def metrics(self) -> list[tfdist_trainer.WeightedMean]:
        """Return the means of the numbers and of their squares."""
        return [
            tfdist_trainer.WeightedMean("balance", lambda labels, _predictions: labels),
            tfdist_trainer.WeightedMean("spread", lambda labels, _predictions: tf.square(labels)),
        ]
