"""Metrics as sums: right by their definition, and the same for every distribution of examples over workers."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.metrics import build
from tfdist_trainer.metrics.additive import WeightedMean
from tfdist_trainer.metrics.collection import MetricCollection
from tfdist_trainer.metrics.keras_metrics import KerasMetric
from tfdist_trainer.programs import choose
from tfdist_trainer.programs.tabular import Tabular

pytestmark = pytest.mark.trainer

Array = npt.NDArray[Any]
CLASSES = 4
PER_CLASS = ["accuracy", "top_2", "precision", "recall", "f1", "auc", "confusion_matrix"]
OF_NUMBERS = ["mean_squared_error", "mean_absolute_error", "root_mean_squared_error", "r2"]


def draw(count: int, classes: int, seed: int) -> tuple[Array, Array, Array]:
    """Return labels [count], logits [count, classes] and weights [count], some of them zero."""
    random = np.random.default_rng(seed)
    weights = random.choice([0.0, 0.25, 1.0, 3.0], count)
    return random.integers(0, classes, count), random.normal(0, 3, (count, classes)), weights


def sums_of(metrics: MetricCollection, labels: Array, predictions: Array, weights: Array) -> Array:
    present = tf.ones([len(labels)], tf.bool)
    given = (tf.constant(labels), tf.constant(predictions, tf.float32), tf.constant(weights, tf.float32))
    return np.asarray(metrics.sums(*given, present))


def one(metric: Any, labels: Any, predictions: Any, weights: Any = None) -> float:
    labels = np.asarray(labels)
    weights = np.ones(len(labels)) if weights is None else np.asarray(weights)
    metrics = MetricCollection([metric])
    return float(metrics.results(sums_of(metrics, labels, np.asarray(predictions), weights))[metrics.metrics[0].name])


def spread_is_whole(metrics: MetricCollection, labels: Array, predictions: Array, weights: Array, seed: int) -> None:
    """Check that the sums of parts, of which some may be empty, add up to those of all."""
    owner = np.random.default_rng(seed).integers(0, 3, len(labels))
    parts = [sums_of(metrics, labels[owner == w], predictions[owner == w], weights[owner == w]) for w in range(3)]
    together = metrics.results(np.sum(parts, axis=0))
    whole = metrics.results(sums_of(metrics, labels, predictions, weights))
    # Keras rounds a batch to float32; the trainer's own metrics do not.
    exact = {name: value for name, value in whole.items() if not name.startswith("keras")}
    assert {name: together[name] for name in exact} == pytest.approx(exact, rel=1e-9, abs=1e-9, nan_ok=True)
    assert together == pytest.approx(whole, rel=1e-6, abs=1e-6, nan_ok=True)


CLASSIFICATION = [*PER_CLASS, "keras.SparseCategoricalCrossentropy"]


@settings(max_examples=25)
@given(count=st.integers(1, 40), classes=st.sampled_from([2, CLASSES]), seed=st.integers(0, 2**32))
def test_parts_of_any_size_add_up_to_the_whole(count: int, classes: int, seed: int) -> None:
    metrics = MetricCollection(build.classification(CLASSIFICATION, classes))
    spread_is_whole(metrics, *draw(count, classes, seed), seed)


@settings(max_examples=25)
@given(count=st.integers(1, 40), seed=st.integers(0, 2**32))
def test_parts_of_numbers_add_up_to_the_whole(count: int, seed: int) -> None:
    _, predictions, weights = draw(count, 2, seed)
    metrics = MetricCollection(build.regression([*OF_NUMBERS, "keras.MeanAbsoluteError"]))
    spread_is_whole(metrics, predictions[:, 0] + 100, predictions[:, 1] + 100, weights, seed)


def test_ratios_follow_their_definition() -> None:
    labels = [0, 0, 1, 1, 1, 1]
    predictions = np.eye(2)[[0, 1, 1, 1, 0, 1]]  # hits 3, of 4 predicted and 4 positive
    by_name = {name: one(build.classification([name], 2)[0], labels, predictions) for name in PER_CLASS[:5]}
    assert by_name == pytest.approx({"accuracy": 4 / 6, "top_2": 1, "precision": 3 / 4, "recall": 3 / 4, "f1": 3 / 4})
    heavy = [0, 1, 1, 1, 1, 1]
    assert one(build.classification(["accuracy"], 2)[0], labels, predictions, heavy) == pytest.approx(3 / 5)


def test_means_over_classes_leave_out_classes_that_do_not_occur() -> None:
    labels, predicted = [0, 0, 1], [0, 1, 1]
    precision, recall = build.classification(["precision", "recall"], 5)
    assert one(precision, labels, np.eye(5)[predicted]) == pytest.approx((1 + 1 / 2) / 2)
    assert one(recall, labels, np.eye(5)[predicted]) == pytest.approx((1 / 2 + 1) / 2)


def test_the_confusion_matrix_is_written_by_label_and_prediction_and_is_no_value() -> None:
    metrics = MetricCollection(build.classification(["confusion_matrix"], 3))
    sums = sums_of(metrics, np.array([0, 0, 2]), np.eye(3)[[0, 1, 2]], np.array([1.0, 2.0, 1.0]))
    assert metrics.results(sums) == {}
    details = metrics.details(sums)["confusion_matrix"]
    assert details["matrix"] == [[1, 2, 0], [0, 0, 0], [0, 0, 1]]
    assert details["classes"]["recall"] == pytest.approx([1 / 3, 0, 1])
    assert details["classes"]["weight"] == [3, 0, 1]


def area_by_pairs(scores: Array, positive: Array, weights: Array) -> float:
    """Return the weight of pairs in which the positive scores higher, of all pairs: the definition."""
    higher = (scores[positive][:, None] > scores[~positive]) + 0.5 * (scores[positive][:, None] == scores[~positive])
    pairs = weights[positive][:, None] * weights[~positive]
    return float((higher * pairs).sum() / pairs.sum())


def test_the_area_under_the_curve_is_that_of_all_pairs_to_the_width_of_a_bin() -> None:
    labels, logits, weights = draw(3000, 2, seed=1)
    odds = logits[:, 1] - logits[:, 0]
    logits[:, 1] += labels  # so that there is something to find
    odds = logits[:, 1] - logits[:, 0]
    expected = area_by_pairs(odds, labels == 1, weights)
    assert one(build.classification(["auc"], 2)[0], labels, logits, weights) == pytest.approx(expected, abs=1e-4)
    labels, logits, weights = draw(3000, 3, seed=2)
    odds = logits - np.stack([np.logaddexp(*np.delete(logits, c, axis=1).T) for c in range(3)], axis=1)
    areas = [area_by_pairs(odds[:, c], labels == c, weights) for c in range(3)]
    auc = build.classification(["auc"], 3)[0]
    assert one(auc, labels, logits, weights) == pytest.approx(np.mean(areas), abs=2e-3)


@pytest.mark.parametrize(("classes", "tolerance"), [(2, 1e-3), (200, 1e-2)])
def test_the_area_of_rare_positives_is_close_to_that_of_all_pairs(classes: int, tolerance: float) -> None:
    random = np.random.default_rng(5)
    labels = (random.uniform(size=4000) < 0.005).astype(np.int64) if classes == 2 else random.integers(0, classes, 4000)
    logits = random.normal(0, 1.5, (4000, classes)) + 2 * np.eye(classes)[labels]
    logits[:, 0] += 8 if classes == 2 else 0
    others = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True) - np.exp(logits))
    curves = [1] if classes == 2 else range(classes)
    expected = np.mean([area_by_pairs(others[:, c], labels == c, np.ones(4000)) for c in curves])
    auc = build.classification(["auc"], classes)[0]
    assert one(auc, labels, logits) == pytest.approx(expected, abs=tolerance)


def test_equal_odds_are_equal_whether_the_class_is_the_first_with_the_largest_score_or_not() -> None:
    logits = [[0, 1, 1], [1, 1, 0]]  # class 1 has the same odds twice; class 0 has lower ones where it is right
    assert one(build.classification(["auc"], 3)[0], [0, 1], np.array(logits)) == np.mean([0, 1 / 2])


def test_the_area_needs_memory_for_each_class_and_not_for_each_pair_of_classes() -> None:
    auc, batch, classes = build.classification(["auc"], 1000)[0], 8, 1000
    given = tf.TensorSpec([batch], tf.int64), tf.TensorSpec([batch, classes]), tf.TensorSpec([batch])
    operations = tf.function(auc.sums).get_concrete_function(*given).graph.get_operations()
    sizes = [output.shape.num_elements() or 0 for operation in operations for output in operation.outputs]
    assert max(sizes) <= max(auc.size, batch * classes)


def test_predictions_close_to_certainty_are_still_distinguished() -> None:
    logits = np.array([[0, 30], [0, 31], [0, 33], [0, 36]])
    assert one(build.classification(["auc"], 2)[0], [0, 0, 1, 1], logits) == 1


def test_numbers_follow_their_definition() -> None:
    labels, predictions = np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 6.0])
    found = {name: one(build.regression([name])[0], labels, predictions) for name in OF_NUMBERS}
    variation = ((labels - labels.mean()) ** 2).sum()
    assert found == pytest.approx(
        {
            "mean_squared_error": 5 / 3,
            "mean_absolute_error": 1,
            "root_mean_squared_error": math.sqrt(5 / 3),
            "r2": 1 - 5 / variation,
        }
    )


@pytest.mark.parametrize("mean", [1e6, -1e9])
def test_r2_of_large_labels_is_right_from_sums_of_float32(mean: float) -> None:
    random = np.random.default_rng(6)
    labels = mean + random.normal(0, 100, 500)
    errors = random.normal(0, 10, 500)
    scale = {"mean": mean, "deviation": 100.0}
    config = {"data": {}, "numeric": ["x"], "normalize": {"x": scale, "label": scale}, "metrics": ["r2"]}
    program = choose("tabular", config).create()
    assert isinstance(program, Tabular)
    program.load({})
    [metric] = program.metrics()
    sums = metric.sums(tf.constant(labels), tf.constant(labels + errors), tf.ones([500]))
    expected = 1 - (errors**2).sum() / ((labels - labels.mean()) ** 2).sum()
    assert metric.result(tf.cast(sums, tf.float32).numpy().astype(np.float64)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", [*CLASSIFICATION, *OF_NUMBERS])
def test_a_metric_of_no_examples_is_nan_and_padding_may_have_any_values(name: str) -> None:
    metric = (build.regression([name]) if name in OF_NUMBERS else build.classification([name], 2))[0]
    shape = [3] if name in OF_NUMBERS else [3, 2]
    sums = sums_of(MetricCollection([metric]), np.array([0, 1, 1]), np.full(shape, np.nan), np.zeros(3))
    assert not sums[1:].any()
    value = metric.result(sums[1:])
    assert value is None or math.isnan(value) or name.startswith("keras")


@pytest.mark.parametrize("classes", [2, CLASSES])
def test_sums_are_the_same_in_a_graph(classes: int) -> None:
    labels, logits, weights = draw(20, classes, seed=4)
    binary = ["keras.BinaryCrossentropy", "keras.AUC"] if classes == 2 else []
    metrics = MetricCollection(build.classification([*CLASSIFICATION, *binary], classes))
    in_graph = tf.function(metrics.sums)
    given = (tf.constant(labels), tf.constant(logits, tf.float32), tf.constant(weights, tf.float32))
    found = in_graph(*given, tf.ones([20], tf.bool)).numpy()
    np.testing.assert_allclose(found, sums_of(metrics, labels, logits, weights), rtol=1e-6)


def test_a_mask_excludes_positions() -> None:
    values = np.array([[1.0, 2.0, 99.0], [3.0, 99.0, 99.0]])
    lengths = np.array([2, 1])
    mean = WeightedMean("m", lambda _, p: p, mask=lambda n, p: tf.sequence_mask(n, tf.shape(p)[1]))
    assert one(mean, lengths, values) == 2
    assert one(mean, lengths, values, [1.0, 3.0]) == pytest.approx((1 + 2 + 9) / 5)


@pytest.mark.parametrize(
    ("make", "classes"),
    [
        (lambda: keras.metrics.AUC(num_thresholds=20), 1),
        (keras.metrics.Precision, 1),
        (lambda: keras.metrics.PrecisionAtRecall(0.5, num_thresholds=20), 1),
        (lambda: keras.metrics.SparseTopKCategoricalAccuracy(k=2), CLASSES),
        (keras.metrics.MeanSquaredLogarithmicError, 1),
    ],
)
def test_keras_metrics_are_equal_to_those_that_keras_computes(make: Callable[[], Any], classes: int) -> None:
    random = np.random.default_rng(3)
    labels, weights = random.integers(0, max(classes, 2), 50), random.uniform(0, 2, 50)
    scores = random.uniform(0, 1, (50, classes)).astype(np.float32)
    keras_metric = make()
    keras_metric.update_state(labels[:, None], scores, sample_weight=weights)
    assert one(make(), labels, scores, weights) == pytest.approx(float(keras_metric.result()), rel=1e-5)


def test_a_metric_that_cannot_be_summed_is_rejected() -> None:
    class Largest(keras.metrics.Metric):  # type: ignore[misc]  # Keras ships no types
        def __init__(self) -> None:
            super().__init__(name="largest")
            self.largest = self.add_variable((), "zeros", aggregation="mean")

    with pytest.raises(ConfigurationError, match=r"metric 'largest'.*cannot be added"):
        KerasMetric(Largest())


@pytest.mark.parametrize("make", [keras.metrics.R2Score, keras.metrics.F1Score])
def test_a_metric_that_creates_its_state_at_the_first_batch_is_rejected(make: Callable[[], Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"metric .*: it creates its state at the first batch"):
        KerasMetric(make())


@pytest.mark.parametrize("name", ["total", "loss"])
def test_two_metrics_with_one_name_are_rejected(name: str) -> None:
    metrics = [WeightedMean("loss", lambda *_: 0), keras.metrics.Mean(name="total"), keras.metrics.Sum(name=name)]
    with pytest.raises(ConfigurationError, match=rf"^training.program: metrics\(\) .* the name '{name}'"):
        MetricCollection(metrics)


@pytest.mark.parametrize(
    ("name", "message"),
    [("keras.NoSuchThing", "has no metric"), ("keras.MeanIoU", "cannot be made by its name alone")],
)
def test_keras_metrics_that_do_not_exist_are_rejected_with_the_reason(name: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"training.config.metrics: .*{message}"):
        build.classification([name], 3)


def test_sums_of_metrics_that_are_kept_are_restored_by_name() -> None:
    before = MetricCollection([WeightedMean("loss", lambda *_: 0), *build.classification(["accuracy", "precision"], 2)])
    after = MetricCollection([WeightedMean("loss", lambda *_: 0), *build.classification(["top_2", "accuracy"], 2)])
    sums = np.arange(1.0, before.size + 1)
    taken = after.restore_sums(sums.tolist(), before.sizes)
    assert after.examples(taken) == 1
    assert after.results(taken)["loss"] == before.results(sums)["loss"]
    assert after.results(taken)["accuracy"] == before.results(sums)["accuracy"]
    assert math.isnan(after.results(taken)["top_2"]), "nothing of the epoch has been counted for it yet"
