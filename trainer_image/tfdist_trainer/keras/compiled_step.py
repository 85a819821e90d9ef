"""Keras' own `train_step` with `jit_compile=True`: XLA compiles forward and backward, and no collective."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfdist_trainer.autograph import graph
from tfdist_trainer.keras.replica_step import required_step
from tfdist_trainer.upstream.keras_fit import LossOf, overrides


def train_step(model: Any) -> Callable[[Any], Any]:
    """Return the `train_step` of `model`, compiled if `jit_compile` is set and the step is Keras' own.

    A `train_step` of the script contains the exchange of gradients, which XLA cannot compile; it runs as it is.
    """
    step: Callable[[Any], Any] = model.train_step
    if not model.jit_compile or model.run_eagerly or overrides(model, "train_step"):
        return step
    loss_of = LossOf(model)

    def compiled(data: Any) -> Any:
        x, y, weight = keras.utils.unpack_x_y_sample_weight(data)

        def forward_and_backward(x: Any, y: Any, weight: Any) -> tuple[Any, tf.Tensor, list[Any]]:
            with tf.GradientTape() as tape:
                predictions, loss = loss_of(x, y, weight)
                scaled = model.optimizer.scale_loss(loss)
            return predictions, loss, tape.gradient(scaled, model.trainable_weights)

        with required_step().compile_scope():
            predictions, loss, gradients = graph(forward_and_backward, jit_compile=True)(x, y, weight)
        loss_of.track(loss, x)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        return model.compute_metrics(x, y, predictions, sample_weight=weight)

    return compiled
