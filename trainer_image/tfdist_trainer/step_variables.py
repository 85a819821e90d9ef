"""The variables of training steps: their update by the optimizer, statistics, finite values, and skipped steps."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import tensorflow as tf

from tfdist_trainer.autograph import graph
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.keras_compat import raw
from tfdist_trainer.strategies.reduction import all_reduce_sum
from tfdist_trainer.strategies.replica_group import ReplicaGroup
from tfdist_trainer.upstream.keras_layers import all_layers
from tfdist_trainer.upstream.strategy_worker import local_updates


class BatchNormSync:
    """Averages the batch-normalization statistics over all replicas.

    The moving mean and variance of `BatchNormalization` differ on every replica (docs/trainer.md), and only the chief's
    would be saved. The variance becomes the one over all replicas' examples: the mean of the variances, and the
    variance of the means. All other non-trainable floating-point variables are averaged as well, except in frozen
    layers, which are equal, and of which a mean is rounded.
    """

    def __init__(self, gang: ReplicaGroup, model: keras.Model) -> None:
        self._gang = gang
        frozen = {id(each) for layer in all_layers(model) if not layer.trainable for each in layer.variables}
        changing = (raw(each) for each in model.non_trainable_variables if id(each) not in frozen)
        self._variables = [variable for variable in changing if _is_float(variable.dtype)]
        indices = {id(variable): index for index, variable in enumerate(self._variables)}
        moments = [(raw(layer.moving_mean), raw(layer.moving_variance)) for layer in _normalizations(model)]
        self._moments = [(indices[id(m)], indices[id(v)]) for m, v in moments if id(m) in indices and id(v) in indices]
        """Indices of the mean and the variance of a layer."""
        self._average = graph(self._in_graph)

    def run(self, weight: float) -> None:
        """Set the statistics on all replicas to their mean, weighted by each member's `weight`.

        A collective. A member without examples passes 0, because its statistics are meaningless.
        """
        if self._variables and self._gang.replicas > 1:
            self._average(tf.constant(weight, tf.float32))

    def _in_graph(self, weight: tf.Tensor) -> None:
        def average() -> None:
            local_values = [variable.read_value() for variable in self._variables]
            mean = self._mean(local_values, weight)
            # From differences: the square of a large mean has no digits left for the variance.
            variances = self._mean([tf.square(local_values[index] - mean[index]) for index, _ in self._moments], weight)
            for (_, index), variance in zip(self._moments, variances, strict=True):
                mean[index] += variance
            for variable, value in zip(self._variables, mean, strict=True):
                variable.assign(value)

        self._gang.strategy.run(average)

    def _mean(self, values: Sequence[tf.Tensor], weight: tf.Tensor) -> list[tf.Tensor]:
        """Return the means over all replicas of `values`, which may be NaN if `weight` is 0."""
        if not values:
            return []
        weighted = [tf.math.multiply_no_nan(value, tf.cast(weight, value.dtype)) for value in values]
        *sums, total = all_reduce_sum([*weighted, weight], self._gang.replicas)
        return [each / tf.cast(total, each.dtype) for each in sums]


class FiniteCheck:
    """Checks that the variables of a checkpoint are finite: most steps check only the loss."""

    def __init__(self, gang: ReplicaGroup, variables: Iterable[Any]) -> None:
        # The first local copy of each variable: reading a distributed variable may be a collective.
        local = [gang.local(raw(variable)) for variable in variables]
        self._variables = [variable for variable in local if _is_float(variable.dtype)]
        self._check = graph(self._in_graph)

    def run(self) -> bool:
        """Return whether all variables are finite; the same on all members, because their variables are equal."""
        return bool(self._check().numpy())

    def _in_graph(self) -> tf.Tensor:
        return tf.reduce_all([tf.reduce_all(tf.math.is_finite(variable.read_value())) for variable in self._variables])


class UndoneVariables:
    """The variables that a skipped step must not change; called in a replica's context.

    Each replica reads and assigns its own copies through their handles: an assignment of Keras may be a collective,
    which no branch of a graph can contain.
    """

    def __init__(self, variables: Iterable[Any]) -> None:
        logical = [raw(variable) for variable in variables]
        self._variables = [part for variable in logical for part in getattr(variable, "variables", [variable])]

    def read(self) -> list[tf.Tensor]:
        """Return the values before a step."""
        return [tf.raw_ops.ReadVariableOp(resource=each.handle, dtype=each.dtype) for each in self._variables]

    def restore(self, values: Sequence[tf.Tensor], *, unless: tf.Tensor) -> None:
        """Set the variables to `values`, which `read` returned, `unless` this is true, bool []."""

        def restore() -> None:
            for variable, value in zip(self._variables, values, strict=True):
                tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)

        tf.cond(unless, lambda: None, restore)


def _normalizations(model: Any) -> list[Any]:
    """Return the layers of `model` that are BatchNormalization or have its moving statistics."""
    return [layer for layer in all_layers(model) if hasattr(layer, "moving_mean") and hasattr(layer, "moving_variance")]


def _is_float(dtype: str) -> bool:
    return bool(tf.as_dtype(dtype).is_floating)


def apply_gradients(optimizer: Any, gradients: Sequence[tf.Tensor], variables: Sequence[Any]) -> None:
    """Apply `gradients` to `variables` with an optimizer of Keras 3 or `tf_keras`."""
    if isinstance(optimizer, keras.optimizers.Optimizer):
        optimizer.apply(gradients, variables)
    else:
        optimizer.apply_gradients(zip(gradients, variables, strict=True), skip_gradients_aggregation=True)


def check_optimizer(gang: ReplicaGroup, optimizer: Any) -> None:
    """Raise `ConfigurationError` if the strategy of `gang` cannot update variables by `optimizer`."""
    # A branch of a graph can contain neither a call of the strategy nor updates on servers.
    if _updates_in_branch(optimizer) and (gang.member.cluster or gang.replicas_per_member > 1):
        raise ConfigurationError(
            "training.program: optimizer() has gradient_accumulation_steps or ema_overwrite_frequency, which neither "
            "ParameterServer nor several GPUs of one replica support; remove it, or set strategy: MultiWorkerMirrored "
            "with one GPU for each worker"
        )


def update_scope(gang: ReplicaGroup, optimizer: Any) -> AbstractContextManager[None]:
    """Call the strategy's `run` of a step that applies `optimizer` inside of this.

    Each replica then updates its own copies of the variables, if the optimizer changes them in a branch, which cannot
    contain a call of the strategy.
    """
    return local_updates(gang.strategy) if gang.replicas > 1 and _updates_in_branch(optimizer) else nullcontext()


def _updates_in_branch(optimizer: Any) -> bool:
    """Return whether only some steps change variables: with accumulation, and if averages become the weights."""
    each = getattr(optimizer, "inner_optimizer", optimizer)
    overwrites = getattr(each, "use_ema", False) and getattr(each, "ema_overwrite_frequency", None)
    return bool(overwrites or getattr(each, "gradient_accumulation_steps", None))
