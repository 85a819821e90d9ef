"""Training and evaluation steps on every replica; several steps run in one `tf.function` (steps per execution).

A step has one collective, whatever the number of variables: an all-reduce of gradients and metric sums as one vector.
The gradient is that of the *sum* of weighted losses, divided by the weight of all replicas after the all-reduce. So a
member with few or no examples neither delays nor distorts the step.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfdist_trainer.autograph import autograph_converted, graph
from tfdist_trainer.data.pipeline import Batch
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.keras_compat import raw
from tfdist_trainer.kernels import adam, batch_normalization
from tfdist_trainer.metrics.additive import WeightedMean
from tfdist_trainer.metrics.collection import MetricCollection
from tfdist_trainer.programs.base import Program
from tfdist_trainer.strategies.reduction import all_reduce_mean, all_reduce_sum
from tfdist_trainer.strategies.replica_group import ReplicaGroup
from tfdist_trainer.upstream.keras_optimizers import disable_gradient_reduction


def metric_sums(program: Program) -> MetricCollection:
    """Return the metrics that the steps of `program` sum up, the loss first."""
    return MetricCollection([WeightedMean("loss", program.loss), *program.metrics()])


class StepStats(NamedTuple):
    """Statistics of one execution of training steps; tensors inside the graph."""

    sums: Any
    """Sums of loss and metrics over all replicas, float64 [sums.size]."""
    gradient_norm: Any
    """Global norm of the gradient of the mean loss in the last step, float32 []. Only that step computes it, unless
    `skip` needs it in every step: for small models the norm takes longer than the gradient."""
    not_finite: Any
    """Steps with a non-finite loss or gradient, int32 []. With `skip` they have changed nothing. Without it the
    execution ends at the first non-finite loss; a non-finite gradient is detected only in the last step."""
    done: Any
    """Finished steps, int32 []."""
    input_wait: Any
    """Seconds that this member waited for its input pipeline, float64 []."""


@dataclass(frozen=True, slots=True)
class StepOptions:
    """Options of the training step."""

    skip: bool = False
    """Whether to skip a step with a non-finite loss or gradient, and continue."""
    compiled: bool = False
    """Whether XLA compiles the computation of a replica (`jit_compile`); collectives stay outside."""
    timed: bool = True
    """Whether to measure the wait for input; TensorFlow's clock is not available in deterministic mode."""


class TrainStep:
    """Trains `model`, several steps per execution."""

    def __init__(self, gang: ReplicaGroup, program: Program, model: Any, optimizer: Any, options: StepOptions) -> None:
        self._gang = gang
        self._loss = autograph_converted(program.loss)
        self._model = model
        self._predict = autograph_converted(model)
        self._optimizer = optimizer
        self._options = options
        self._sums = metric_sums(program)
        self._variables = [raw(variable) for variable in model.trainable_variables]
        self._scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        # The gradient of an embedding is sparse; made dense, all of it would travel to the parameter servers.
        self._dense = gang.replicas > 1 or options.skip or isinstance(optimizer, keras.optimizers.Optimizer)
        if isinstance(optimizer, keras.optimizers.Optimizer):  # `apply` passes skip_gradients_aggregation to tf_keras
            disable_gradient_reduction(optimizer)
        adam.fuse(optimizer)
        batch_normalization.fuse(model)
        self.graph = graph(self._execute)
        """(iterator, number of steps) -> `StepStats` of tensors."""

    def run(self, iterator: Any, steps: int) -> StepStats:
        """Run `steps` steps and return their statistics in NumPy types; a collective."""
        return StepStats(*(part.numpy() for part in self.graph(iterator, tf.constant(steps))))

    def _execute(self, iterator: Any, steps: tf.Tensor) -> StepStats:
        def wanted(stats: StepStats) -> tf.Tensor:
            more = stats.done < steps
            return more if self._options.skip else tf.logical_and(more, tf.equal(stats.not_finite, 0))

        def step(stats: StepStats) -> tuple[StepStats]:
            if self._options.timed:
                batch, seconds = timed_next(iterator, after=stats.sums)
            else:
                batch, seconds = iterator.get_next(), tf.constant(0.0, tf.float64)
            done = stats.done + 1
            results = self._gang.strategy.run(self._replica, args=(batch, tf.equal(done, steps)))
            sums, norm, finite = (self._gang.local(result) for result in results)
            bad = stats.not_finite + tf.cast(tf.logical_not(finite), tf.int32)
            return (StepStats(stats.sums + sums, norm, bad, done, stats.input_wait + seconds),)

        zero = tf.constant(0)
        none = StepStats(
            tf.zeros([self._sums.size], tf.float64), tf.constant(0.0), zero, zero, tf.constant(0.0, tf.float64)
        )
        (stats,) = tf.while_loop(wanted, step, (none,))
        return StepStats(*stats)

    def _replica(self, batch: Batch, last: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Run one step on one replica; return (sums over all replicas, norm of the gradient, whether finite)."""
        if self._options.compiled and self._gang.replicas == 1:
            whole: tuple[tf.Tensor, tf.Tensor, tf.Tensor] = graph(self._step, jit_compile=True)(Batch(*batch), last)
            return whole
        return self._step(Batch(*batch), last)

    def _step(self, batch: Batch, last: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        local = self._local
        if self._options.compiled and self._gang.replicas > 1:
            # A separate function for each replica, because it captures the variables of that replica.
            local = graph(local, jit_compile=True)
        *gradients, sums = all_reduce_mean(local(batch), self._gang.replicas)
        finite = tf.math.is_finite(tf.reduce_sum(sums))
        checked = last if not self._options.skip else tf.constant(True)
        norm = tf.cond(checked, lambda: _norm(gradients), lambda: tf.constant(0.0))
        if self._scaled:
            # Loss scaling probes for the largest scale: it expects infinite gradients, and skips such steps itself.
            norm /= tf.cast(raw(self._optimizer.dynamic_scale), norm.dtype)
        else:
            finite = tf.logical_and(finite, tf.math.is_finite(norm))
        if self._options.skip:
            if not self._scaled:
                gradients = [tf.where(finite, gradient, tf.zeros_like(gradient)) for gradient in gradients]
            # The first sum, the number of examples, is always valid.
            sums = tf.where(tf.logical_or(finite, tf.range(self._sums.size) == 0), sums, tf.zeros_like(sums))
        apply(self._optimizer, gradients, self._model.trainable_variables)
        return tf.cast(sums, tf.float64), norm, finite

    def _local(self, batch: Batch) -> list[tf.Tensor]:
        """Return the gradients, the metric sums and the weight of this replica.

        The gradients are those of the sum of weighted losses; with one replica of their mean, which saves a division
        for each.
        """
        weight = tf.reduce_sum(batch.weights)
        with tf.GradientTape() as tape:
            predictions = as_float32(self._predict(batch.features, training=True))
            losses = per_example(self._loss(batch.labels, predictions), batch.weights)
            zero = tf.zeros_like(losses)
            loss = tf.reduce_sum(tf.where(batch.weights > 0, losses * batch.weights, zero))
            if self._gang.replicas == 1:
                loss = tf.math.divide_no_nan(loss, weight)
            scaled = self._optimizer.scale_loss(loss) if self._scaled else loss
        unconnected = tf.UnconnectedGradients.ZERO
        gradients = tape.gradient(scaled, self._variables, None, unconnected)
        if self._dense:
            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        # float32, to share the all-reduce of the gradients. Within one step counts stay exact, up to 2**24.
        sums = tf.cast(self._sums.sums(batch.labels, predictions, batch.weights, batch.valid_mask), tf.float32)
        return [*gradients, sums, weight]


class EvaluateStep:
    """Evaluates `model`, several steps per execution."""

    def __init__(self, gang: ReplicaGroup, program: Program, model: keras.Model) -> None:
        self._gang = gang
        self._predict = autograph_converted(model)
        self._sums = metric_sums(program)
        self.run = graph(self._execute)
        """(iterator, number of steps) -> the sums of these steps over all replicas, float64 [sums.size]."""

    def _execute(self, iterator: Any, steps: tf.Tensor) -> tf.Tensor:
        def step(done: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            sums = self._gang.strategy.run(self._replica, args=(iterator.get_next(),))
            return done + 1, total + self._gang.local(sums)

        first = tf.zeros_like(steps), tf.zeros([self._sums.size], tf.float64)
        _, total = tf.while_loop(lambda done, _: done < steps, step, first)
        return total

    def _replica(self, batch: Batch) -> tf.Tensor:
        batch = Batch(*batch)
        predictions = as_float32(self._predict(batch.features, training=False))
        sums = self._sums.sums(batch.labels, predictions, batch.weights, batch.valid_mask)
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, sums)


class BatchNormSync:
    """Averages the batch-normalization statistics over all replicas.

    The moving mean and variance of `BatchNormalization` differ on every replica (docs/trainer.md), and only those of
    the chief would be saved. All other non-trainable floating-point variables are averaged as well.
    """

    def __init__(self, gang: ReplicaGroup, model: keras.Model) -> None:
        self._gang = gang
        self._variables = [v for each in model.non_trainable_variables if _is_float((v := raw(each)).dtype)]
        self._average = graph(self._in_graph)

    def run(self, weight: float) -> None:
        """Set the statistics on all replicas to their mean, weighted by each member's `weight`.

        A collective. A member without examples passes 0, because its statistics are meaningless.
        """
        if self._variables and self._gang.replicas > 1:
            self._average(tf.constant(weight, tf.float32))

    def _in_graph(self, weight: tf.Tensor) -> None:
        def average() -> None:
            values = [variable.read_value() * tf.cast(weight, variable.dtype) for variable in self._variables]
            *values, total = all_reduce_sum([*values, weight], self._gang.replicas)
            for variable, value in zip(self._variables, values, strict=True):
                variable.assign(tf.cast(value / tf.cast(total, value.dtype), variable.dtype))

        self._gang.strategy.run(average)


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


def timed_next(iterator: Any, after: tf.Tensor) -> tuple[Any, tf.Tensor]:
    """Return the next batch and the seconds waited for it, float64 [], counted from when `after` is computed."""
    with tf.control_dependencies([after]):
        started = tf.timestamp()
    with tf.control_dependencies([started]):
        batch = iterator.get_next()
    arrived = tf.nest.flatten(batch, expand_composites=True)
    with tf.control_dependencies(arrived):
        return batch, tf.timestamp() - started


def per_example(losses: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Return `losses` as float32 after checking that they have one value per example.

    Raises:
        ConfigurationError: the shape is not [batch].
    """
    if losses.shape.rank != 1 or losses.shape[0] != weights.shape[0]:
        raise ConfigurationError(
            f"training.program: loss() returns shape {losses.shape}, expected {weights.shape}: one value for each "
            "example; reduce all axes except the first, for example with tf.reduce_mean(..., axis=-1)"
        )
    return tf.cast(losses, tf.float32)


def as_float32(predictions: Any) -> Any:
    """Cast half-precision predictions to float32, the type in which losses and metrics are computed."""
    half = (tf.float16, tf.bfloat16)
    return tf.nest.map_structure(lambda t: tf.cast(t, tf.float32) if t.dtype in half else t, predictions)


def apply(optimizer: Any, gradients: Sequence[tf.Tensor], variables: Sequence[Any]) -> None:
    """Apply `gradients` to `variables` with an optimizer of Keras 3 or `tf_keras`."""
    if isinstance(optimizer, keras.optimizers.Optimizer):
        optimizer.apply(gradients, variables)
    else:
        optimizer.apply_gradients(zip(gradients, variables, strict=True), skip_gradients_aggregation=True)


def _norm(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the global norm, float32 []; the gradients may have different dtypes."""
    return tf.linalg.global_norm([tf.cast(gradient, tf.float32) for gradient in gradients])


def _is_float(dtype: str) -> bool:
    return bool(tf.as_dtype(dtype).is_floating)
