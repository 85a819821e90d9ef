"""Fashion-MNIST, with an accident: worker 1 dies once, in the middle of the second epoch.

Every example has a number, from -11,999 to 11,999 in steps of two, and their mean is the metric `balance`: 0 over an
epoch in which each is seen once, also over the one that was interrupted and taken up again.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfdist_trainer

COUNT = 12_000


class CrashOnce(tfdist_trainer.Program):
    """Classifies 12,000 images."""

    def model(self) -> keras.Model:
        """Return one hidden layer."""
        return keras.Sequential(
            [keras.layers.Input([784]), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)]
        )

    def dataset(self, split: tfdist_trainer.Split, shard: tfdist_trainer.Shard) -> tf.data.Dataset:
        """Return images, and labels with the examples' numbers: int64 [2]."""
        del split
        files = [np.load(name) for name in sorted(Path("/examples/npz").glob("train-0000[01]-*.npz"))]
        images = np.concatenate([file["image"] for file in files])[:COUNT].reshape(COUNT, 784)
        labels = np.concatenate([file["label"] for file in files])[:COUNT]
        numbers = range(shard.index, COUNT, shard.count)

        def read() -> Iterator[tuple[np.ndarray, tuple[int, int]]]:
            for number in numbers:
                self.accident(shard)
                yield images[number].astype(np.float32) / 255, (labels[number], 2 * number - (COUNT - 1))

        specification = (tf.TensorSpec([784], tf.float32), tf.TensorSpec([2], tf.int64))
        data = tf.data.Dataset.from_generator(read, output_signature=specification)
        return data.apply(tf.data.experimental.assert_cardinality(len(numbers)))

    def accident(self, shard: tfdist_trainer.Shard) -> None:
        """End without a word at worker 1's 9,000th example, one and a half epochs in, unless it has happened before."""
        self.given = getattr(self, "given", 0) + 1
        if (shard.index, self.given) != (1, 9000):
            return
        happened = Path(json.loads(os.environ["TFDIST_JOB"])["checkpoint"]["directory"], "accident")
        if not happened.exists():
            happened.touch()
            os._exit(1)

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the cross entropy of each example."""
        return keras.losses.sparse_categorical_crossentropy(labels[:, 0], predictions, from_logits=True)

    def metrics(self) -> list[tfdist_trainer.WeightedMean]:
        """Return the mean of the examples' numbers."""
        return [tfdist_trainer.WeightedMean("balance", lambda labels, _predictions: labels[:, 1])]
