"""Metrics of regression; labels and predictions are numbers, [batch] each."""

import numpy as np
import tensorflow as tf

from tfdist_trainer.metrics.additive import AdditiveMetric, Sums, WeightedMean


def squared_error(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """Return (label - prediction)**2 of each example, float64 [batch]."""
    return tf.square(tf.cast(labels, tf.float64) - tf.cast(predictions, tf.float64))


def absolute_error(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """Return |label - prediction| of each example, float64 [batch]."""
    return tf.abs(tf.cast(labels, tf.float64) - tf.cast(predictions, tf.float64))


class RootMeanSquaredError(WeightedMean):
    """The root of the mean squared error: taken once, of the mean over all examples."""

    def __init__(self) -> None:
        super().__init__("root_mean_squared_error", squared_error)

    def result(self, sums: Sums) -> float:
        """Return the root; NaN if the sum of weights is zero."""
        return float(np.sqrt(super().result(sums)))


class RSquared(AdditiveMetric):
    """The part of the labels' variance that predictions explain: 1 - sum(w e**2) / sum(w (y - mean)**2).

    The variance comes from sums of labels and squared labels, which cancel if the mean is much larger than the
    deviation: training adds in float32. So labels are measured from `pivot`, a number near their mean.
    """

    name = "r2"

    def __init__(self, pivot: float = 0.0) -> None:
        self._pivot = pivot

    @property
    def size(self) -> int:
        """Length of the vector of sums."""
        return 4

    def sums(self, labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Return float64 [4]: the sums of weights, labels from the pivot, their squares, and squared errors."""
        weights, values = tf.cast(weights, tf.float64), tf.cast(labels, tf.float64) - self._pivot
        errors = tf.where(weights > 0, squared_error(labels, predictions), tf.zeros_like(values))
        parts = [weights, weights * values, weights * values * values, weights * errors]
        return tf.stack([tf.reduce_sum(part) for part in parts])

    def result(self, sums: Sums) -> float:
        """Return R squared; NaN if the variance of the labels is zero."""
        weight, total, squares, errors = sums
        spread = squares - total * total / weight if weight else 0.0
        return float(1 - errors / spread) if spread > 0 else float("nan")
