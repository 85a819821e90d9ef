"""What an assignment does to the state of a metric or of a layer, by its graph."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tfdist_trainer.keras.assigned_values import added_rows
from tfdist_trainer.keras.metric_states import change_of, join_changes

pytestmark = pytest.mark.trainer

LABELS = np.array([[0.0, 1.0], [1.0, 0.0]], "float32")
SCORES = np.array([[0.2, 0.8], [0.6, 0.4]], "float32")
OPTIONS: dict[str, dict[str, Any]] = {
    "MeanIoU": {"num_classes": 2, "sparse_y_pred": False},
    "OneHotMeanIoU": {"num_classes": 2},
    "PrecisionAtRecall": {"recall": 0.5},
    "SpecificityAtSensitivity": {"sensitivity": 0.5},
}


@pytest.mark.parametrize(
    ("value", "change"),
    [
        (lambda state, x: state + x, "sum"),
        (lambda state, x: x + state - 2 * x + 1, "sum"),
        (lambda state, x: ops.cast(ops.cast(state, "float64") + ops.cast(x, "float64"), "float32"), "sum"),
        (lambda state, x: tf.where(x > 0, state + x, state), "sum"),
        (lambda state, x: tf.tensor_scatter_nd_add(ops.convert_to_tensor(state), [[0]], x[:1]), "sum"),
        (ops.maximum, "maximum"),
        (lambda state, x: ops.maximum(x, ops.maximum(state, 2 * x)), "maximum"),
        (lambda state, x: ops.minimum(x, state), "minimum"),
        (lambda state, x: tf.where(x < 0, ops.minimum(x, state), state), "minimum"),
        (lambda state, x: 0.9 * state + 0.1 * x, "replaced"),
        (lambda state, x: state + 0.1 * (x - state), "replaced"),
        (lambda _, x: x, "replaced"),
        (lambda state, x: ops.sqrt(state + x), "unknown"),
        (lambda *_: tf.zeros([2]), "none"),
        (lambda state, _: state, "none"),
    ],
)
def test_the_graph_shows_what_an_assignment_does(value: Callable[..., Any], change: str) -> None:
    state = keras.Variable(np.ones(2, "float32"))
    found = []

    def step(x: tf.Tensor) -> None:
        def record() -> None:
            found.append(change_of(state.value, tf.convert_to_tensor(value(state, x))))

        record()
        tf.cond(x[0] > 0, record, lambda: None)

    tf.function(step, autograph=False).get_concrete_function(tf.TensorSpec([2]))
    assert found == [change, change]


@pytest.mark.parametrize(
    ("value", "is_sum_of_rows"),
    [
        (lambda state, x: state + ops.sum(x, axis=0), True),
        (lambda state, x: ops.sum(x, axis=(-2, 1)) + state, True),
        (lambda state, x: state + ops.cast(ops.sum(ops.cast(x, "float64"), axis=0), "float32"), True),
        (lambda state, x: state + ops.mean(x, axis=0), False),
        (lambda state, x: state + ops.sum(ops.mean(x, axis=0), axis=0), False),
        (lambda state, x: state + ops.sum(x, axis=1)[:2], False),
        (lambda state, x: state + x[0], False),
        (lambda state, _: state + 1.0, False),
        (lambda state, x: 0.9 * state + ops.sum(x, axis=0), False),
        (lambda _, x: ops.sum(x, axis=0), False),
    ],
)
def test_the_graph_shows_whether_the_sum_over_the_rows_is_added(
    value: Callable[..., Any], is_sum_of_rows: bool
) -> None:
    state = keras.Variable(np.ones(2, "float32"))
    found = []

    def step(x: tf.Tensor) -> None:
        found.append(added_rows(state.value, tf.convert_to_tensor(value(state, x))))

    tf.function(step, autograph=False).get_concrete_function(tf.TensorSpec([None, 2]))
    assert (found[0] is not None) == is_sum_of_rows


@pytest.mark.parametrize(
    "name",
    [
        *("AUC", "F1Score", "R2Score", "PearsonCorrelation", "OneHotMeanIoU", "PrecisionAtRecall", "TruePositives"),
        *("SpecificityAtSensitivity", "BinaryAccuracy", "MeanSquaredError", "Recall", "ConcordanceCorrelation"),
    ],
)
def test_the_states_of_metrics_of_keras_are_sums(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    metric = getattr(keras.metrics, name)(**OPTIONS.get(name, {}))
    metric.update_state(LABELS, SCORES)
    found = []

    def assign(variable: Any, value: Any) -> None:
        found.append(change_of(variable.value, value))

    monkeypatch.setattr(type(metric.variables[0]), "_direct_assign", assign)
    weighted = tf.function(lambda weight: metric.update_state(LABELS, SCORES, sample_weight=weight))
    weighted.get_concrete_function(tf.TensorSpec([2]))
    assert set(found) == {"sum"}


def test_a_reset_before_an_update_is_no_change() -> None:
    assert join_changes("none", "sum") == join_changes("sum", "none") == join_changes("sum", "sum") == "sum"
    assert join_changes("sum", "maximum") == "unknown"
