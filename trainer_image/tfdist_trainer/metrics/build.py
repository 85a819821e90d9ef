"""Creates the metrics that a configuration names."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import keras
import tensorflow as tf

from tfdist.programs import metric_names
from tfdist_trainer.errors import ConfigurationError, one_line
from tfdist_trainer.metrics.additive import AdditiveMetric, WeightedMean, correct
from tfdist_trainer.metrics.classification import BINARY, AreaUnderCurve, ClassRatio, ConfusionMatrix
from tfdist_trainer.metrics.keras_metrics import KerasMetric
from tfdist_trainer.metrics.regression import RootMeanSquaredError, RSquared, absolute_error, squared_error

FIELD: Final = "training.config.metrics"

_REGRESSION: Final[Mapping[str, Callable[[float], AdditiveMetric]]] = {
    "mean_squared_error": lambda _mean: WeightedMean("mean_squared_error", squared_error),
    "mean_absolute_error": lambda _mean: WeightedMean("mean_absolute_error", absolute_error),
    "root_mean_squared_error": lambda _mean: RootMeanSquaredError(),
    "r2": RSquared,
}

_CLASSIFICATION: Final[Mapping[str, Callable[[int], AdditiveMetric]]] = {
    "accuracy": lambda _classes: WeightedMean("accuracy", correct),
    "precision": lambda classes: ClassRatio("precision", classes),
    "recall": lambda classes: ClassRatio("recall", classes),
    "f1": lambda classes: ClassRatio("f1", classes),
    "auc": AreaUnderCurve,
    "confusion_matrix": ConfusionMatrix,
}


def regression(names: Sequence[str], mean: float = 0.0) -> list[AdditiveMetric]:
    """Return the metrics `names` of numbers whose labels have about the given `mean`; errors as of `classification`."""
    return [_REGRESSION[name](mean) if name in _REGRESSION else _keras_metric(name, None) for name in names]


def classification(names: Sequence[str], classes: int) -> list[AdditiveMetric]:
    """Return the metrics `names` of integer labels [batch] and logits [batch, classes].

    Metrics of Keras receive probabilities, [batch, classes]; or, with two classes and a name that does not
    start with `Sparse`, [batch, 1] of class 1.

    Raises:
        ConfigurationError: Keras has no such metric, or none that can be added over workers.
    """

    def make(name: str) -> AdditiveMetric:
        if name in _CLASSIFICATION:
            return _CLASSIFICATION[name](classes)
        if match := metric_names.TOP_K.fullmatch(name):
            return top_k(int(match[1]))
        return _keras_metric(name, classes)

    return [make(name) for name in names]


def top_k(k: int) -> AdditiveMetric:
    """Return the fraction of examples whose label is among the `k` largest scores."""

    def is_in_top_k(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        return tf.math.in_top_k(labels, tf.cast(predictions, tf.float32), k)

    return WeightedMean(f"top_{k}", is_in_top_k)


def _keras_metric(name: str, classes: int | None) -> AdditiveMetric:
    match = metric_names.KERAS.fullmatch(name)
    metric_class = getattr(keras.metrics, match[1], None) if match else None
    if metric_class is None:
        raise ConfigurationError(f"{FIELD}: Keras {keras.__version__} has no metric {name!r}")
    try:
        metric = metric_class(name=name, dtype="float64")
    except TypeError as error:
        raise ConfigurationError(f"{FIELD}: {name} cannot be made by its name alone: {one_line(str(error))}") from None

    binary = classes == BINARY and "Sparse" not in name

    def probabilities(_labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        scores = tf.nn.softmax(logits)
        return scores[:, 1:] if binary else scores

    return KerasMetric(metric, None if classes is None else probabilities)
