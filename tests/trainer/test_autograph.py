"""AutoGraph converts functions of users, whose `if` over tensors needs it, and no function of the trainer."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist.contract import ReplicaJob
from tfdist_trainer.autograph import autograph_converted, do_not_convert, graph
from tfdist_trainer.environment import GangMember
from tfdist_trainer.keras_compat import keras
from tfdist_trainer.metrics.additive import AdditiveMetric, Sums, WeightedMean
from tfdist_trainer.programs import choose
from tfdist_trainer.programs.base import Program
from tfdist_trainer.step import EvaluateStep, StepOptions, TrainStep, metric_sums
from tfdist_trainer.strategies.replica_group import ReplicaGroup

pytestmark = pytest.mark.trainer


def size(tensor: tf.Tensor) -> tf.Tensor:
    """Return the sum of the absolute values, written for AutoGraph."""
    total = tf.constant(0.0)
    for number in tensor:
        if number < 0:
            total -= number
        else:
            total += number
    return total


def test_a_users_function_may_branch_on_tensors_in_a_graph_of_the_trainer() -> None:
    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
        graph(size)(tf.constant([1.0, -2.0]))
    using = autograph_converted(size)

    def twice(tensor: tf.Tensor) -> tf.Tensor:
        return 2.0 * using(tensor)

    assert graph(twice)(tf.constant([1.0, -2.0])).numpy() == 6.0
    data = tf.data.Dataset.from_tensors(tf.constant([1.0, -2.0]))
    assert [float(number) for number in data.map(do_not_convert(twice))] == [6.0]


def test_a_function_of_the_trainer_is_not_converted() -> None:
    loss: Callable[..., Any] = choose("image_classification", {"data": {}, "imageShape": [4, 4, 1]}).create().loss
    assert autograph_converted(loss) == loss


class Largest(AdditiveMetric):
    """The sum of the largest predictions."""

    name = "largest"

    @property
    def size(self) -> int:
        """One sum."""
        return 1

    def sums(self, labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Return the largest prediction, if there is one."""
        del labels
        largest = tf.constant(0.0)
        if tf.reduce_sum(weights) > 0:
            largest = tf.reduce_max(predictions)
        return tf.cast(largest[tf.newaxis], tf.float64)

    def result(self, sums: Sums) -> float:
        """Return it."""
        return float(sums[0])


class Choosy(Program):
    """A user's program whose loss, metrics and mask branch on the values of tensors."""

    def model(self) -> Any:
        """Return one neuron that begins with a weight of 2."""
        ones = keras.initializers.Constant(2.0)
        return keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1, kernel_initializer=ones)])

    def dataset(self, split: Any, shard: Any) -> tf.data.Dataset:
        """Return nothing: the test gives the batches."""
        raise NotImplementedError

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return absolute differences."""
        differences = labels - predictions[:, 0]
        if tf.reduce_sum(differences) < 0:
            differences = -differences
        return differences

    def metrics(self) -> list[AdditiveMetric]:
        """Return metrics that each need AutoGraph."""

        def value(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
            del predictions
            return labels if tf.reduce_sum(labels) > 0 else -labels

        def mask(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
            del predictions
            return labels > 1 if tf.reduce_sum(labels) > 0 else labels < 100

        return [WeightedMean("value", value, mask), Largest()]


def test_loss_metrics_and_masks_of_a_users_program_may_branch_on_tensors() -> None:
    job = ReplicaJob(
        name="t", namespace="d", uid="u", strategy="OneDevice", role="worker", index=0, replicas={"worker": 1}
    )
    gang = ReplicaGroup(GangMember(job=job, rank=0, size=1, addresses=()), tf.distribute.get_strategy())
    program = Choosy(Program.Config())
    model, optimizer = program.model(), keras.optimizers.SGD(0.0)
    optimizer.build(model.trainable_variables)
    labels, weights = np.array([1.0, 2.0, 3.0], np.float32), np.ones(3, np.float32)
    batch = np.array([[1.0], [2.0], [4.0]], np.float32), labels, weights, weights > 0
    data = tf.data.Dataset.from_tensors(batch).repeat()
    trained = TrainStep(gang, program, model, optimizer, StepOptions()).run(iter(data), 2)
    evaluated = EvaluateStep(gang, program, model).run(iter(data), tf.constant(2)).numpy()
    for sums in (trained.sums, evaluated):
        results = metric_sums(program).results(sums)
        assert results == pytest.approx({"loss": 8 / 3, "value": 2.5, "largest": 16.0})
