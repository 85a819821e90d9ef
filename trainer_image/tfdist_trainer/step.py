"""The computation: one training or evaluation step on every replica, many of them in one `tf.function`.

A step makes one collective, whatever the number of variables: gradients and metric sums travel as one vector.
The gradient is of the *sum* of weighted losses, and is divided by the weight of all replicas after the
collective; so a member with few or no examples neither drags nor distorts the step.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist_trainer.data.pipeline import Batch
from tfdist_trainer.metrics.sums import SumsOf, WeightedMean
from tfdist_trainer.programs.base import Program
from tfdist_trainer.strategies.gang import Gang


def metric_sums(program: Program) -> SumsOf:
    """Return the sums that steps of `program` add up: those of the loss first."""
    return SumsOf([WeightedMean("loss", program.loss), *program.metrics()])


class TrainStep:
    """Trains `model` by whole chunks of steps."""

    def __init__(self, gang: Gang, program: Program, model: keras.Model, optimizer: keras.optimizers.Optimizer) -> None:
        self._gang = gang
        self._program = program
        self._model = model
        self._optimizer = optimizer
        self._sums = metric_sums(program)
        self._variables = [variable.value for variable in model.trainable_variables]
        _reduce_only_once(optimizer)
        self.run = tf.function(self._chunk)
        """(iterator, number of steps) -> the sums of these steps over the gang, float64 [sums.size]."""

    def _chunk(self, iterator: Any, steps: tf.Tensor) -> tf.Tensor:
        total = tf.zeros([self._sums.size], tf.float64)
        for _ in tf.range(steps):
            sums = self._gang.strategy.run(self._replica, args=(next(iterator),))
            total += self._gang.local(sums)
        return total

    def _replica(self, batch: Batch) -> tf.Tensor:
        """Take one step on one replica and return its sums over the gang."""
        batch = Batch(*batch)
        with tf.GradientTape() as tape:
            predictions = self._model(batch.features, training=True)
            losses = self._program.loss(batch.labels, predictions)
            zero = tf.zeros_like(losses)
            loss = tf.reduce_sum(tf.where(batch.weights > 0, losses * batch.weights, zero))
        unconnected = tf.UnconnectedGradients.ZERO
        gradients = [_dense(g) for g in tape.gradient(loss, self._variables, None, unconnected)]
        # In float32 they travel with the gradients. Within one step counts stay exact, up to 2**24.
        sums = tf.cast(self._sums.sums(batch.labels, predictions, batch.weights, batch.present), tf.float32)
        weight = tf.reduce_sum(batch.weights)
        *gradients, sums, weight = add_over_replicas([*gradients, sums, weight])
        # A step without any example, which only a restart with another layout can make, must change nothing
        # and divide by something.
        gradients = [tf.math.divide_no_nan(gradient, weight) for gradient in gradients]
        self._optimizer.apply(gradients, self._model.trainable_variables)
        return tf.cast(sums, tf.float64)


class EvaluateStep:
    """Evaluates `model` by whole chunks of steps."""

    def __init__(self, gang: Gang, program: Program, model: keras.Model) -> None:
        self._gang = gang
        self._model = model
        self._sums = metric_sums(program)
        self.run = tf.function(self._chunk)
        """(iterator, number of steps) -> the sums of these steps over the gang, float64 [sums.size]."""

    def _chunk(self, iterator: Any, steps: tf.Tensor) -> tf.Tensor:
        total = tf.zeros([self._sums.size], tf.float64)
        for _ in tf.range(steps):
            sums = self._gang.strategy.run(self._replica, args=(next(iterator),))
            total += self._gang.local(sums)
        return total

    def _replica(self, batch: Batch) -> tf.Tensor:
        batch = Batch(*batch)
        predictions = self._model(batch.features, training=False)
        sums = self._sums.sums(batch.labels, predictions, batch.weights, batch.present)
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, sums)


class Averaging:
    """Makes the statistics that every replica keeps for itself equal.

    The moving mean and variance of `BatchNormalization` differ on every worker (docs/trainer.md), and only
    one worker's would be saved.
    """

    def __init__(self, gang: Gang, model: keras.Model) -> None:
        self._gang = gang
        self._variables = [v.value for v in model.non_trainable_variables if _is_float(v.dtype)]
        self._average = tf.function(self._in_graph)

    def run(self, weight: float) -> None:
        """Set the statistics on all replicas to their mean, weighted by each member's `weight`.

        A collective; a member that has no examples passes 0, because its statistics are of nothing.
        """
        if self._variables and self._gang.replicas > 1:
            self._average(tf.constant(weight, tf.float32))

    def _in_graph(self, weight: tf.Tensor) -> None:
        def average() -> None:
            values = [variable.read_value() * tf.cast(weight, variable.dtype) for variable in self._variables]
            *values, total = add_over_replicas([*values, weight])
            for variable, value in zip(self._variables, values, strict=True):
                variable.assign(tf.cast(value / tf.cast(total, value.dtype), variable.dtype))

        self._gang.strategy.run(average)


def add_over_replicas(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return the sums over all replicas of `tensors`, with one collective for each type of number.

    Without this each tensor is a collective of its own, and on small models their latency is the step's time
    (`tensorflow/python/distribute/cross_device_ops.py` packs tensors for NCCL only).
    """
    reduced: list[tf.Tensor] = list(tensors)
    context = tf.distribute.get_replica_context()
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
        chosen = [index for index, tensor in enumerate(tensors) if tensor.dtype == dtype]
        flat = tf.concat([tf.reshape(tensors[index], [-1]) for index in chosen], axis=0)
        flat = context.all_reduce(tf.distribute.ReduceOp.SUM, flat)
        parts = tf.split(flat, [tensors[index].shape.num_elements() for index in chosen])
        for index, part in zip(chosen, parts, strict=True):
            reduced[index] = tf.reshape(part, tensors[index].shape)
    return reduced


def _reduce_only_once(optimizer: keras.optimizers.Optimizer) -> None:
    """Keep `optimizer` from adding up gradients over replicas, which the step has done already.

    Keras does it in `keras/src/backend/tensorflow/optimizer.py`, after clipping; ours comes before, so that
    clipping sees the gradient of the whole batch.
    """
    name = "_all_reduce_sum_gradients"
    if not callable(getattr(optimizer, name, None)):
        raise TypeError(f"this version of Keras has no Optimizer.{name}: gradients would be added up twice")
    setattr(optimizer, name, lambda grads_and_vars: grads_and_vars)


def _dense(gradient: Any) -> tf.Tensor:
    return tf.convert_to_tensor(gradient)


def _is_float(dtype: str) -> bool:
    return bool(tf.as_dtype(dtype).is_floating)
