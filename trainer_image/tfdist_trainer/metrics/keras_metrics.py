"""Adapter from Keras metrics to additive metrics.

Most Keras metrics keep totals and counts, which are additive over batches and replicas; Keras marks such variables with
the aggregation `sum` (`keras/src/metrics/metric.py`, `add_variable`). A metric with another kind of state, such as a
running mean, is rejected: the states of several workers have no correct combination.
"""

import keras
import numpy as np
import tensorflow as tf

from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.metrics.additive import AdditiveMetric, PerExample, Sums


class KerasMetric(AdditiveMetric):
    """One Keras metric; its variables are its sums, one after the other.

    Args:
        metric: a new metric; only the shapes of its state are used.
        scores: converts the predictions to the scores that the metric receives; None passes them unchanged.

    Raises:
        ConfigurationError: its state is not additive, or not known before the first batch.
    """

    def __init__(self, metric: keras.metrics.Metric, scores: PerExample | None = None) -> None:
        self.name = metric.name
        self._metric = metric
        self._scores = scores
        self._variables = list(metric.variables)
        # A sum that begins at another value than 0 would count it once for each batch.
        additive = all(variable.aggregation == "sum" and not np.any(variable.numpy()) for variable in self._variables)
        if not additive:
            raise ConfigurationError(
                f"metric {metric.name!r} ({type(metric).__name__}): its state is not sums that start from zero, so "
                "the states of several workers cannot be added; use another, or a WeightedMean of your own"
            )
        if not self._variables or not self._has_result():
            raise ConfigurationError(
                f"metric {metric.name!r} ({type(metric).__name__}): it creates its state at the first batch, and the "
                "sums of a metric must be known before; use another, or a WeightedMean of your own"
            )
        self._sizes = [int(np.prod(variable.shape)) for variable in self._variables]

    def _has_result(self) -> bool:
        """Return whether the state is complete: a metric that adds to it at the first batch has no result before."""
        try:
            self._metric.stateless_result([variable.value for variable in self._variables])
        except Exception:  # a metric class of a user may raise any exception
            return False
        return True

    @property
    def size(self) -> int:
        """Length of the vector of sums."""
        return sum(self._sizes)

    def sums(self, labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Return the state, float64 [size], of this batch alone."""
        if self._scores is not None:
            predictions = self._scores(labels, predictions)
        # Keras averages over the last axis, which must not be the axis of the examples.
        if predictions.shape.rank == 1:
            predictions = predictions[:, tf.newaxis]
        if labels.shape.rank == 1 and predictions.shape[1:] == [1]:
            labels = labels[:, tf.newaxis]
        # A prediction that is not a number would stay one, times the weight 0.
        has_weight = tf.reshape(weights > 0, [-1, *[1] * (predictions.shape.rank - 1)])
        predictions = tf.where(has_weight, predictions, tf.zeros_like(predictions))
        state = [tf.zeros(variable.shape, variable.dtype) for variable in self._variables]
        state = self._metric.stateless_update_state(state, labels, predictions, sample_weight=weights)
        return tf.concat([tf.reshape(tf.cast(part, tf.float64), [-1]) for part in state], axis=0)

    def result(self, sums: Sums) -> float:
        """Return Keras' result of these sums, the mean of it if it has several values."""
        parts = np.split(sums, np.cumsum(self._sizes)[:-1])
        pairs = zip(parts, self._variables, strict=True)
        state = [tf.constant(part.reshape(variable.shape), variable.dtype) for part, variable in pairs]
        return float(np.mean(self._metric.stateless_result(state)))
