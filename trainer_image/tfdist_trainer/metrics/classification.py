"""Metrics of classification from counts: of classes, of pairs of classes, and of scores in bins.

Labels are integers [batch]; predictions are logits [batch, classes]. With two classes, class 1 is the positive
one and ratios are of it; with more, they are means over the classes that occur ("macro" averages).
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np
import tensorflow as tf

from tfdist_trainer.metrics.additive import AdditiveMetric, Sums

BINARY: Final = 2
BINS: Final = 1000
"""Bins of scores with two classes. With more it is a fifth: there are as many histograms as classes."""

Ratio = Literal["precision", "recall", "f1"]
RATIOS: Final[tuple[Ratio, ...]] = ("precision", "recall", "f1")


def one_hot(labels: tf.Tensor, classes: int) -> tf.Tensor:
    """Return float64 [batch, classes]."""
    return tf.one_hot(labels, classes, dtype=tf.float64)


class ClassRatio(AdditiveMetric):
    """Precision, recall or F1 from three counts of each class: hits, predictions, labels."""

    def __init__(self, name: Ratio, classes: int) -> None:
        self.name = name
        self._classes = classes

    @property
    def size(self) -> int:
        """Length of the vector of sums."""
        return 3 * self._classes

    def sums(self, labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Return float64 [3 * classes]: weights of hits, of predictions and of labels of each class."""
        weights = tf.cast(weights, tf.float64)[:, tf.newaxis]
        actual = one_hot(labels, self._classes) * weights
        predicted = one_hot(tf.argmax(predictions, axis=-1), self._classes)
        counts = [actual * predicted, predicted * weights, actual]
        return tf.concat([tf.reduce_sum(count, axis=0) for count in counts], axis=0)

    def result(self, sums: Sums) -> float:
        """Return the ratio; 0 for a class without predictions or without labels."""
        hits, predicted, actual = np.split(sums, 3)
        if not actual.any():
            return float("nan")
        ratios = class_ratios(self.name, hits, predicted, actual)
        if self._classes == BINARY:
            return float(ratios[1])
        return float(np.mean(ratios[predicted + actual > 0]))


def class_ratios(name: str, hits: Sums, predicted: Sums, actual: Sums) -> Sums:
    """Return the ratio `name` of every class, 0 if its denominator is 0."""
    parts = {"precision": (hits, predicted), "recall": (hits, actual), "f1": (2 * hits, predicted + actual)}
    numerator, denominator = parts[name]
    ratios: Sums = np.divide(numerator, denominator, out=np.zeros_like(denominator), where=denominator > 0)
    return ratios


class ConfusionMatrix(AdditiveMetric):
    """The weight of each pair of label and predicted class; it has no value, only details."""

    name = "confusion_matrix"

    def __init__(self, classes: int) -> None:
        self._classes = classes

    @property
    def size(self) -> int:
        """Length of the vector of sums."""
        return self._classes * self._classes

    def sums(self, labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Return float64 [classes * classes]: the weight of each pair of label and prediction."""
        predicted = tf.argmax(predictions, axis=-1, output_type=labels.dtype)
        pairs = labels * self._classes + predicted
        return tf.math.unsorted_segment_sum(tf.cast(weights, tf.float64), pairs, self.size)

    def result(self, sums: Sums) -> None:  # noqa: ARG002  a matrix is not a number
        """Return nothing: a matrix is not a number."""
        return

    def details(self, sums: Sums) -> Mapping[str, Any]:
        """Return the matrix, a row for each label, and precision, recall, F1 and weight of each class."""
        matrix = sums.reshape(self._classes, self._classes)
        hits, predicted, actual = np.diag(matrix), matrix.sum(axis=0), matrix.sum(axis=1)
        ratios = {name: class_ratios(name, hits, predicted, actual).tolist() for name in RATIOS}
        return {"matrix": matrix.tolist(), "classes": ratios | {"weight": actual.tolist()}}


class AreaUnderCurve(AdditiveMetric):
    """Area under the receiver operating characteristic, from histograms of scores of positives and negatives.

    Equal to the probability that a positive scores higher than a negative, where two in one bin count half
    (Fawcett, "An introduction to ROC analysis", 2006). A bin is a range of x / (1 + |x|) of the log-odds x: any
    increasing function leaves the area as it is, and this one separates very confident predictions, which
    probabilities near 0 or 1 do not. With several classes it is the mean of each class against all others.
    """

    name = "auc"

    def __init__(self, classes: int) -> None:
        self._classes = classes
        self._curves = 1 if classes == BINARY else classes
        self._bins = BINS if classes == BINARY else BINS // 5

    @property
    def size(self) -> int:
        """Length of the vector of sums."""
        return 2 * self._curves * self._bins

    def sums(self, labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Return float64 [2 * curves * bins]: the weight of negatives, then of positives, by curve and bin."""
        odds = self._log_odds(tf.cast(predictions, tf.float64))
        bins = tf.cast((odds / (1 + tf.abs(odds)) + 1) / 2 * self._bins, tf.int64)
        bins = tf.clip_by_value(bins, 0, self._bins - 1)
        curves = tf.range(self._curves, dtype=tf.int64)
        positive_classes = curves if self._curves > 1 else tf.constant([1], tf.int64)
        positive = tf.cast(tf.cast(labels, tf.int64)[:, tf.newaxis] == positive_classes, tf.int64)
        index = (positive * self._curves + curves) * self._bins + bins
        spread = tf.repeat(tf.cast(weights, tf.float64), self._curves)
        return tf.math.unsorted_segment_sum(spread, tf.reshape(index, [-1]), self.size)

    def result(self, sums: Sums) -> float:
        """Return the mean area over the classes that have both positives and negatives."""
        areas = [_area(*pair) for pair in zip(*sums.reshape(2, self._curves, self._bins), strict=True)]
        defined = [area for area in areas if area is not None]
        return float(np.mean(defined)) if defined else float("nan")

    def _log_odds(self, logits: tf.Tensor) -> tf.Tensor:
        """Return log p / (1 - p), [batch, curves], of the classes' probabilities."""
        if self._curves == 1:
            return logits[:, 1:] - logits[:, :1]
        # log(1 - p) without a table of [batch, classes, classes]: 1 - p is exact to subtract unless p is the largest.
        total = tf.reduce_logsumexp(logits, axis=-1, keepdims=True)
        largest = tf.one_hot(tf.argmax(logits, axis=-1), self._classes, on_value=True, off_value=False, dtype=tf.bool)
        masked = tf.where(largest, tf.constant(-np.inf, logits.dtype), logits)
        share = tf.where(largest, tf.zeros_like(logits), tf.exp(logits - total))
        others = tf.where(largest, tf.reduce_logsumexp(masked, axis=-1, keepdims=True), total + tf.math.log1p(-share))
        return logits - others


def _area(negative: Sums, positive: Sums) -> float | None:
    """Return the area under the curve of two histograms, None when one is empty."""
    if not negative.any() or not positive.any():
        return None
    below = np.cumsum(negative) - negative / 2
    return float(np.sum(positive * below) / (negative.sum() * positive.sum()))
