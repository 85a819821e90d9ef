"""Metrics as vectors of sums: add them over examples, replicas and steps, and divide once at the end.

That is what makes a metric of N workers equal to that of one process: addition does not care who added what,
and no average is ever averaged. Sums are float64, so that their order shows only beyond the 12th digit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tensorflow as tf

PerExample = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""labels [batch], predictions [batch, ...] -> one value for each example, [batch]."""


@dataclass(frozen=True, slots=True)
class WeightedMean:
    """The mean of a per-example value, weighted by the examples' weights: sum(w * v) / sum(w)."""

    name: str
    value: PerExample

    def sums(self, labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Return float64 [2]: the weighted sum of the value, and the sum of weights."""
        values = tf.cast(self.value(labels, predictions), tf.float64)
        weights = tf.cast(weights, tf.float64)
        # An absent example may have any value, even one that is not a number, and must not spoil the sum.
        weighted = tf.where(weights > 0, values * weights, tf.zeros_like(values))
        return tf.stack([tf.reduce_sum(weighted), tf.reduce_sum(weights)])

    @property
    def size(self) -> int:
        """Length of the vector of sums."""
        return 2

    def result(self, sums: npt.NDArray[np.float64]) -> float:
        """Return the metric; not a number when nothing was weighed."""
        return float(sums[0] / sums[1]) if sums[1] else float("nan")


def correct(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """Return 1 for each example whose largest score, of `predictions` [batch, classes], is its label's."""
    return tf.cast(tf.equal(tf.argmax(predictions, axis=-1, output_type=labels.dtype), labels), tf.float64)


class SumsOf:
    """Several metrics and the number of examples as one vector of sums, so that one collective adds all."""

    def __init__(self, metrics: Sequence[WeightedMean]) -> None:
        self.metrics = tuple(metrics)
        self.size = 1 + sum(metric.size for metric in self.metrics)

    def sums(self, labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor, present: tf.Tensor) -> tf.Tensor:
        """Return float64 [size]: the number of examples present, then the sums of each metric in turn."""
        examples = tf.reduce_sum(tf.cast(present, tf.float64))[tf.newaxis]
        return tf.concat([examples, *(m.sums(labels, predictions, weights) for m in self.metrics)], axis=0)

    def zeros(self) -> npt.NDArray[np.float64]:
        """Return the sums of no example."""
        return np.zeros(self.size, np.float64)

    def examples(self, sums: npt.NDArray[np.float64]) -> int:
        """Return how many examples `sums` is of; exact up to 2**53."""
        return round(float(sums[0]))

    def results(self, sums: npt.NDArray[np.float64]) -> Mapping[str, float]:
        """Return each metric's value by name."""
        results: dict[str, float] = {}
        start = 1
        for metric in self.metrics:
            results[metric.name] = metric.result(sums[start : start + metric.size])
            start += metric.size
        return results
