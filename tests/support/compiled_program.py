"""A program whose compilation by XLA waits while the file `HOLD_FILE` exists.

Keras computes the loss in Python when a step is traced: before the first step, and again for XLA.
"""

import os
import time
from pathlib import Path

import keras
import tensorflow as tf

from tfdist_trainer.programs.image_classification import ImageClassification


class Compiled(ImageClassification):
    """Classifies images."""

    def optimizer(self, scale: float) -> keras.optimizers.Optimizer:
        self._optimizer = super().optimizer(scale)
        return self._optimizer

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        self._hold()
        return super().loss(labels, predictions)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]  # TensorFlow ships no types
    def _hold(self) -> None:
        with tf.init_scope():
            steps = int(self._optimizer.iterations)
        while steps and Path(os.environ["HOLD_FILE"]).exists():
            time.sleep(0.02)
