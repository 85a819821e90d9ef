"""All metrics of a program as one vector of sums, so that one collective adds them over the replicas."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist_trainer.autograph import autograph_converted
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.metrics.additive import AdditiveMetric, Sums, weighted_sums
from tfdist_trainer.metrics.keras_metrics import KerasMetric

SumsOfBatch = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
"""labels, predictions, weights -> sums: `Metric.sums`."""
Sizes = tuple[tuple[str, int], ...]
"""Name and number of sums of metrics, in the order of their sums."""


class MetricCollection:
    """Several metrics and the number of examples as one vector of sums, for one collective.

    A Keras metric is accepted if its state is additive.

    Args:
        metrics: in the order of their sums.
        traced: prepares the function of the part of that name for a graph, and may report its errors.

    Raises:
        ConfigurationError: the state of a Keras metric is not additive, or two metrics have one name.
    """

    def __init__(
        self,
        metrics: Sequence[AdditiveMetric | keras.metrics.Metric],
        traced: Callable[[str, SumsOfBatch], SumsOfBatch] = lambda _name, sums: autograph_converted(sums),
    ) -> None:
        self.metrics = tuple(
            metric if isinstance(metric, AdditiveMetric) else KerasMetric(metric) for metric in metrics
        )
        names = Counter(metric.name for metric in self.metrics)
        if duplicates := [name for name, count in names.items() if count > 1]:
            raise ConfigurationError(
                f"training.program: metrics() returns two metrics with the name {duplicates[0]!r}; names must differ, "
                "and 'loss' is the name of loss()"
            )
        self.size = 1 + sum(metric.size for metric in self.metrics)
        self._sums = [traced(f"metric {metric.name!r}", metric.sums) for metric in self.metrics]

    def sums(
        self,
        labels: tf.Tensor,
        predictions: tf.Tensor,
        weights: tf.Tensor,
        valid_mask: tf.Tensor,
        *,
        losses: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return float64 [size]: the number of valid examples, then the sums of each metric in turn.

        `losses`, [batch], are the values of the first metric, a weighted mean, if they are computed already: a loss
        with random numbers would have other values the second time.
        """
        examples = tf.reduce_sum(tf.cast(valid_mask, tf.float64))[tf.newaxis]
        # A loss with random numbers would have other values the second time.
        first = [] if losses is None else [weighted_sums(losses, weights)]
        others = (sums(labels, predictions, weights) for sums in self._sums[len(first) :])
        return tf.concat([examples, *first, *others], axis=0)

    @property
    def sizes(self) -> Sizes:
        """Name and number of sums of each metric, in order."""
        return tuple((metric.name, metric.size) for metric in self.metrics)

    def restore_sums(self, sums: Sequence[float], sizes: Sizes) -> Sums:
        """Return `sums`, of metrics of these `sizes`, as sums of this collection.

        Metrics that are not among them start from zero.
        """
        ends = np.cumsum([1, *(size for _, size in sizes)])
        examples, *parts = np.split(np.asarray(sums, np.float64), ends)
        stored = dict(zip(sizes, parts, strict=False))
        return np.concatenate([examples, *(stored.get(key, np.zeros(key[1])) for key in self.sizes)])

    def zeros(self) -> Sums:
        """Return the sums of no example."""
        return np.zeros(self.size, np.float64)

    def examples(self, sums: Sums) -> int:
        """Return the number of examples in `sums`; exact up to 2**53."""
        return round(float(sums[0]))

    def results(self, sums: Sums) -> Mapping[str, float]:
        """Return each metric's value by name; metrics that have only details are omitted."""
        values = {metric.name: metric.result(part) for metric, part in self._parts(sums)}
        return {name: value for name, value in values.items() if value is not None}

    def details(self, sums: Sums) -> Mapping[str, Mapping[str, Any]]:
        """Return the tables of the metrics that have some, by name, ready for JSON."""
        details = {metric.name: metric.details(part) for metric, part in self._parts(sums)}
        return {name: value for name, value in details.items() if value is not None}

    def _parts(self, sums: Sums) -> Sequence[tuple[AdditiveMetric, Sums]]:
        ends = np.cumsum([1, *(metric.size for metric in self.metrics)])
        return [(m, sums[start : start + m.size]) for m, start in zip(self.metrics, ends, strict=False)]
