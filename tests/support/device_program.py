"""A small network for images that tests of devices train, with breakpoints (`support.breakpoint_program`)."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfdist_trainer
from support import breakpoint_program

EXAMPLES = 192
HOLDS = breakpoint_program.hold
"""The import alone makes the places at which a replica stops."""


class Config(tfdist_trainer.ProgramConfig):
    """Whether the model has what differs from replica to replica."""

    per_replica: bool = True


class Images(tfdist_trainer.Program):
    """Convolutions, with batch normalization and dropout if replicas may differ."""

    Config = Config

    def model(self) -> keras.Model:
        layers = keras.layers
        own = [layers.BatchNormalization(), layers.Dropout(0.2)] if self.config.per_replica else []
        body = [layers.Conv2D(8, 3, activation="relu"), *own, layers.Flatten(), layers.Dense(4)]
        return keras.Sequential([keras.Input((8, 8, 3)), *body])

    def dataset(self, _split: Any, shard: Any) -> tf.data.Dataset:
        random = np.random.default_rng(5)
        images, labels = random.normal(size=(EXAMPLES, 8, 8, 3)), random.integers(0, 4, EXAMPLES)
        examples = tf.data.Dataset.from_tensor_slices((images.astype(np.float32), labels))
        return examples.shard(shard.count, shard.index)

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, predictions)
