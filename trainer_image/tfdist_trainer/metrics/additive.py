"""Additive metrics: vectors of sums over examples, replicas and steps, divided once at the end.

So a metric of N workers equals the metric of one process: sums do not depend on the partition of the examples, and
averages are never averaged. Sums are float64: their order changes only digits beyond the 12th.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdist_trainer.autograph import autograph_converted
from tfdist_trainer.errors import ConfigurationError

Sums = npt.NDArray[np.float64]

PerExample = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""labels [batch, ...], predictions [batch, ...] -> one value for each example, [batch], or for each position of
each example, [batch, positions]."""


class AdditiveMetric(ABC):
    """A metric whose state is a vector of sums."""

    name: str

    @property
    @abstractmethod
    def size(self) -> int:
        """Length of the vector of sums."""

    @abstractmethod
    def sums(self, labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Return the sums, float64 [size], of a batch whose examples have these `weights`, float [batch].

        An example of weight zero adds nothing, even when its prediction is not a number.
        """

    @abstractmethod
    def result(self, sums: Sums) -> float | None:
        """Return the metric; NaN if the sum of weights is zero, None if it has only details."""

    def details(self, sums: Sums) -> Mapping[str, Any] | None:  # noqa: ARG002  for those that have some
        """Return tables that an evaluation writes in addition to the value, ready for JSON; by default None."""
        return None


class WeightedMean(AdditiveMetric):
    """The mean of a value, weighted by the examples' weights: sum(w * v) / sum(w).

    Args:
        name: its name in reports.
        value: of each example or of each position.
        mask: which positions of `value` count, bool of the same shape; None counts all.
    """

    def __init__(self, name: str, value: PerExample, mask: PerExample | None = None) -> None:
        self.name = name
        self.value = autograph_converted(value)
        self.mask = None if mask is None else autograph_converted(mask)

    @property
    def size(self) -> int:
        """Length of the vector of sums."""
        return 2

    def sums(self, labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Return float64 [2]: the weighted sum of the value, and the sum of weights."""
        values = tf.cast(_check_per_example(self.name, self.value(labels, predictions), weights), tf.float64)
        weights = spread(weights, values)
        if self.mask is not None:
            weights = weights * tf.cast(self.mask(labels, predictions), tf.float64)
        return weighted_sums(values, weights)

    def result(self, sums: Sums) -> float:
        """Return the mean; NaN if the sum of weights is zero."""
        return float(sums[0] / sums[1]) if sums[1] else float("nan")


def weighted_sums(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Return float64 [2]: the sum of `values`, each times its weight, and the sum of `weights`, of the same shape.

    A value of weight zero adds nothing, even if it is not a number.
    """
    values, weights = tf.cast(values, tf.float64), tf.cast(weights, tf.float64)
    # NaN times 0 is NaN.
    weighted = tf.where(weights > 0, values * weights, tf.zeros_like(values))
    return tf.stack([tf.reduce_sum(weighted), tf.reduce_sum(weights)])


def _check_per_example(name: str, values: Any, weights: tf.Tensor) -> Any:
    """Return `values` after checking that they begin with the axis of the examples, as `weights`, [batch]."""
    shape = None if values is None else tf.convert_to_tensor(values).shape
    if shape is None or shape.rank == 0 or not shape[:1].is_compatible_with(weights.shape):
        actual = "a NoneType" if shape is None else f"shape {shape}"
        raise ConfigurationError(
            f"training.program: metric {name!r} returns {actual}; return one value for each example, "
            f"{weights.shape}, or each position, without reducing the first axis"
        )
    return values


def spread(weights: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Return the weights of examples, [batch], as float64 of the shape of `values`, [batch, ...]."""
    weights = tf.cast(weights, tf.float64)
    shape = tf.concat([tf.shape(weights), tf.ones([tf.rank(values) - 1], tf.int32)], axis=0)
    return tf.broadcast_to(tf.reshape(weights, shape), tf.shape(values))


def correct(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """Return 1 for each example whose largest score, of `predictions` [batch, classes], is its label's."""
    return tf.cast(tf.equal(tf.argmax(predictions, axis=-1, output_type=labels.dtype), labels), tf.float64)
