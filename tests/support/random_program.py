"""The random models of `keras3/random_models.py` as programs of the trainer; `training.config.number` chooses one."""

from typing import Any

import keras
import tensorflow as tf
from keras3.random_models import Case

from tfdist_trainer.programs.base import Program


class RandomProgram(Program):
    """A model with one or two outputs, on `examples` of its data."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._case = Case(config.number)

    def model(self) -> Any:
        return Case(self.config.number).model()

    def dataset(self, split: Any, shard: Any) -> tf.data.Dataset:  # noqa: ARG002  all are the same
        """Return features, and as labels the labels and the weight of each output."""
        x, labels, weights = self._case.arrays()
        weights = weights or tuple(tf.ones_like(each) for each in labels)
        parts = (x, labels, tuple(tf.reshape(each, [-1]) for each in weights))
        data = tf.data.Dataset.from_tensor_slices(parts).take(self.config.examples)
        return data.map(lambda x, y, w: (x, (y, w))).shard(shard.count, shard.index)

    def loss(self, labels: Any, predictions: Any) -> tf.Tensor:
        """Return the weighted sum of the losses of the outputs.

        Keras divides by the number of examples, not by their weight, so their weights are factors here.
        """
        of_outputs = zip(*labels, tf.nest.flatten(predictions), self._case.losses, self._case.loss_weights, strict=True)
        return tf.add_n(
            [scale * weight * keras.losses.get(name)(y, each) for y, weight, each, name, scale in of_outputs]
        )

    def optimizer(self, scale: float) -> Any:  # noqa: ARG002
        return self._case.optimizer()
