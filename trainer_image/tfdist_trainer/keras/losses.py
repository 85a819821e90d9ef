"""Losses of Keras in a step of several replicas: means of the local batch, which the exchange makes exact."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfdist_trainer.keras.replica_step import current_step
from tfdist_trainer.upstream.keras_fit import Loss, masked_weights


def reduce_weighted_values(original: Loss) -> Loss:
    """Return Keras' reduction of a loss with the scale that makes it exact on several replicas."""

    def reduce(
        values: Any,
        sample_weight: Any = None,
        mask: Any = None,
        reduction: str = "sum_over_batch_size",
        dtype: Any = None,
    ) -> Any:
        loss = original(values, sample_weight, mask, reduction, dtype)
        step = current_step()
        if step is None:
            return loss
        # A sum over the local batch is exact only if the exchange does not average it.
        if reduction == "sum":
            return step.scale_sum(loss)
        # Divided by the sum of weights of the local batch: their sum over all workers is needed.
        if reduction == "mean_with_sample_weight" and (sample_weight is not None or mask is not None):
            return step.scale_mean(loss, tf.reduce_sum(masked_weights(sample_weight, mask, loss.dtype, reduction)))
        if reduction in {"mean", "sum_over_batch_size"} and mask is not None:
            return step.scale_mean(loss, tf.reduce_sum(tf.cast(mask, tf.float32)))
        return loss

    return reduce


def scale(original: Any) -> Any:
    """Return Keras' scale of a loss by the number of replicas, without effect in a step, whose exchange has weights."""

    def scaled(value: Any) -> Any:
        return original(value) if current_step() is None else value

    return scaled


def update_mean(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `Mean.update_state` with the number of examples as the weight of one number in a step.

    Such a number is a mean over the local batch: the loss of an output, or what a `train_step` of the script records.
    """

    def update_state(self: Any, values: Any, sample_weight: Any = None) -> Any:
        step = current_step()
        # Keras would give each local batch the same weight, whatever its size.
        if step is not None and sample_weight is None and tf.convert_to_tensor(values).shape.rank == 0:
            sample_weight = step.examples
        return original(self, values, sample_weight)

    return update_state


def synchronized_moments(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return Keras' moments over all replicas of the rows that count."""

    def moments(x: Any, axes: Any, keepdims: bool) -> Any:
        step = current_step()
        return original(x if step is None else step.counted_rows(x), axes, keepdims)

    return moments
