"""The computation: one training or evaluation step on every replica, many of them in one `tf.function`.

A step makes one collective, whatever the number of variables: gradients and metric sums travel as one vector.
The gradient is of the *sum* of weighted losses, and is divided by the weight of all replicas after the
collective; so a member with few or no examples neither drags nor distorts the step.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfdist_trainer.autograph import graph, translated
from tfdist_trainer.data.pipeline import Batch
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.kernels import adam, batch_normalization
from tfdist_trainer.metrics.sums import SumsOf, WeightedMean
from tfdist_trainer.programs.base import Program
from tfdist_trainer.strategies.gang import Gang
from tfdist_trainer.strategies.reduction import add_over_replicas, mean_over_replicas


def metric_sums(program: Program) -> SumsOf:
    """Return the sums that steps of `program` add up: those of the loss first."""
    return SumsOf([WeightedMean("loss", program.loss), *program.metrics()])


class Outcome(NamedTuple):
    """What a chunk of training steps tells; tensors when it comes out of the graph."""

    sums: Any
    """Sums of loss and metrics over the gang, float64 [sums.size]."""
    gradient_norm: Any
    """Global norm of the last step's gradient, of the mean loss, float32 []. It is worked out for this step alone,
    unless `skip` needs it for all: on small models it takes longer than the gradient."""
    not_finite: Any
    """Steps whose loss or gradient was not finite, int32 []. With `skip` they have changed nothing. Without, the chunk
    ends at the first loss that is not finite; a gradient that is not is found out in the last step of the chunk."""
    done: Any
    """Steps taken, int32 []."""
    input_wait: Any
    """Seconds that the steps of this member waited for their batches, float64 []."""


@dataclass(frozen=True, slots=True)
class StepOptions:
    """How training steps are computed."""

    skip: bool = False
    """Whether to go on after a step whose loss or gradient is not finite."""
    compiled: bool = False
    """Whether XLA compiles the computation of a replica; what replicas exchange stays outside."""
    timed: bool = True
    """Whether to measure how long batches take to come; TensorFlow's clock does not run in deterministic mode."""


class TrainStep:
    """Trains `model` by whole chunks of steps."""

    def __init__(self, gang: Gang, program: Program, model: Any, optimizer: Any, options: StepOptions) -> None:
        self._gang = gang
        self._loss = translated(program.loss)
        self._model = model
        self._predict = translated(model)
        self._optimizer = optimizer
        self._options = options
        self._sums = metric_sums(program)
        self._variables = [raw(variable) for variable in model.trainable_variables]
        self._scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        # An embedding's gradient is of a few rows; the whole would travel to the parameter servers.
        self._dense = gang.replicas > 1 or options.skip or isinstance(optimizer, keras.optimizers.Optimizer)
        reduce_only_once(optimizer)
        adam.fuse(optimizer)
        batch_normalization.fuse(model)
        self.graph = graph(self._chunk)
        """(iterator, number of steps) -> `Outcome` of tensors."""

    def run(self, iterator: Any, steps: int) -> Outcome:
        """Take `steps` steps and return their outcome in NumPy's types; a collective."""
        return Outcome(*(part.numpy() for part in self.graph(iterator, tf.constant(steps))))

    def _chunk(self, iterator: Any, steps: tf.Tensor) -> Outcome:
        def wanted(told: Outcome) -> tf.Tensor:
            more = told.done < steps
            return more if self._options.skip else tf.logical_and(more, tf.equal(told.not_finite, 0))

        def step(told: Outcome) -> tuple[Outcome]:
            if self._options.timed:
                batch, seconds = timed_next(iterator, after=told.sums)
            else:
                batch, seconds = iterator.get_next(), tf.constant(0.0, tf.float64)
            done = told.done + 1
            results = self._gang.strategy.run(self._replica, args=(batch, tf.equal(done, steps)))
            sums, norm, finite = (self._gang.local(result) for result in results)
            bad = told.not_finite + tf.cast(tf.logical_not(finite), tf.int32)
            return (Outcome(told.sums + sums, norm, bad, done, told.input_wait + seconds),)

        zero = tf.constant(0)
        none = Outcome(
            tf.zeros([self._sums.size], tf.float64), tf.constant(0.0), zero, zero, tf.constant(0.0, tf.float64)
        )
        (outcome,) = tf.while_loop(wanted, step, (none,))
        return Outcome(*outcome)

    def _replica(self, batch: Batch, last: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Take one step on one replica and return (its sums over the gang, norm of the gradient, whether finite)."""
        if self._options.compiled and self._gang.replicas == 1:
            whole: tuple[tf.Tensor, tf.Tensor, tf.Tensor] = graph(self._step, jit_compile=True)(Batch(*batch), last)
            return whole
        return self._step(Batch(*batch), last)

    def _step(self, batch: Batch, last: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        local = self._local
        if self._options.compiled and self._gang.replicas > 1:
            # A function of its own for each replica, because the variables of each are part of it.
            local = graph(local, jit_compile=True)
        *gradients, sums = mean_over_replicas(local(batch), self._gang.replicas)
        finite = tf.math.is_finite(tf.reduce_sum(sums))
        looked_at = last if not self._options.skip else tf.constant(True)
        norm = tf.cond(looked_at, lambda: _norm(gradients), lambda: tf.constant(0.0))
        if self._scaled:
            # Loss scaling tries how far it can go: an infinite gradient is no mistake, and it skips the step itself.
            norm /= tf.cast(raw(self._optimizer.dynamic_scale), norm.dtype)
        else:
            finite = tf.logical_and(finite, tf.math.is_finite(norm))
        if self._options.skip:
            if not self._scaled:
                gradients = [tf.where(finite, gradient, tf.zeros_like(gradient)) for gradient in gradients]
            # The number of examples, which comes first, is right in any case.
            sums = tf.where(tf.logical_or(finite, tf.range(self._sums.size) == 0), sums, tf.zeros_like(sums))
        apply(self._optimizer, gradients, self._model.trainable_variables)
        return tf.cast(sums, tf.float64), norm, finite

    def _local(self, batch: Batch) -> list[tf.Tensor]:
        """Return this replica's part of the mean's gradients, its sums, and its weight.

        The gradients are of the sum of weighted losses; on an only replica of their mean, which saves dividing each.
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
        # In float32 they travel with the gradients. Within one step counts stay exact, up to 2**24.
        sums = tf.cast(self._sums.sums(batch.labels, predictions, batch.weights, batch.present), tf.float32)
        return [*gradients, sums, weight]


class EvaluateStep:
    """Evaluates `model` by whole chunks of steps."""

    def __init__(self, gang: Gang, program: Program, model: keras.Model) -> None:
        self._gang = gang
        self._predict = translated(model)
        self._sums = metric_sums(program)
        self.run = graph(self._chunk)
        """(iterator, number of steps) -> the sums of these steps over the gang, float64 [sums.size]."""

    def _chunk(self, iterator: Any, steps: tf.Tensor) -> tf.Tensor:
        def step(done: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            sums = self._gang.strategy.run(self._replica, args=(iterator.get_next(),))
            return done + 1, total + self._gang.local(sums)

        first = tf.zeros_like(steps), tf.zeros([self._sums.size], tf.float64)
        _, total = tf.while_loop(lambda done, _: done < steps, step, first)
        return total

    def _replica(self, batch: Batch) -> tf.Tensor:
        batch = Batch(*batch)
        predictions = as_float32(self._predict(batch.features, training=False))
        sums = self._sums.sums(batch.labels, predictions, batch.weights, batch.present)
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, sums)


class Averaging:
    """Makes the statistics that every replica keeps for itself equal.

    The moving mean and variance of `BatchNormalization` differ on every worker (docs/trainer.md), and only
    one worker's would be saved.
    """

    def __init__(self, gang: Gang, model: keras.Model) -> None:
        self._gang = gang
        self._variables = [v for each in model.non_trainable_variables if _is_float((v := raw(each)).dtype)]
        self._average = graph(self._in_graph)

    def run(self, weight: float) -> None:
        """Set the statistics on all replicas to their mean, weighted by each member's `weight`.

        A collective; a member that has no examples passes 0, because its statistics are of nothing.
        """
        if self._variables and self._gang.replicas > 1:
            self._average(tf.constant(weight, tf.float32))

    def _in_graph(self, weight: tf.Tensor) -> None:
        def average() -> None:
            values = [variable.read_value() * tf.cast(weight, variable.dtype) for variable in self._variables]
            *values, total = add_over_replicas([*values, weight], self._gang.replicas)
            for variable, value in zip(self._variables, values, strict=True):
                variable.assign(tf.cast(value / tf.cast(total, value.dtype), variable.dtype))

        self._gang.strategy.run(average)


class FiniteCheck:
    """Tells whether what a checkpoint would hold is finite: of most steps only the loss was looked at."""

    def __init__(self, gang: Gang, variables: Iterable[Any]) -> None:
        # Of each its first copy here: to read one as a whole may be a collective for each.
        local = [gang.local(raw(variable)) for variable in variables]
        self._variables = [variable for variable in local if _is_float(variable.dtype)]
        self._check = graph(self._in_graph)

    def run(self) -> bool:
        """Return whether every number in the variables is finite; alike on all members, whose variables are equal."""
        return bool(self._check().numpy())

    def _in_graph(self) -> tf.Tensor:
        return tf.reduce_all([tf.reduce_all(tf.math.is_finite(variable.read_value())) for variable in self._variables])


def timed_next(iterator: Any, after: tf.Tensor) -> tuple[Any, tf.Tensor]:
    """Return the next batch and the seconds that it took to come, float64 [], counted from when `after` is known."""
    with tf.control_dependencies([after]):
        started = tf.timestamp()
    with tf.control_dependencies([started]):
        batch = iterator.get_next()
    arrived = [tensor for part in tf.nest.flatten(batch) for tensor in getattr(part, "values", (part,))]
    with tf.control_dependencies(arrived):
        return batch, tf.timestamp() - started


def per_example(losses: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Return `losses`, which have one value for each example.

    Raises:
        ConfigurationError: the program returns another shape.
    """
    if losses.shape.rank != 1 or losses.shape[0] != weights.shape[0]:
        raise ConfigurationError(
            f"training.program: loss() returns shape {losses.shape}, expected {weights.shape}: one value for each "
            "example; reduce the other axes, for example with tf.reduce_mean(..., axis=-1), and leave the batch's"
        )
    return tf.cast(losses, tf.float32)


def as_float32(predictions: Any) -> Any:
    """Return predictions of a model in mixed precision as float32, in which losses and metrics are computed."""
    half = (tf.float16, tf.bfloat16)
    return tf.nest.map_structure(lambda t: tf.cast(t, tf.float32) if t.dtype in half else t, predictions)


def raw(variable: Any) -> Any:
    """Return TensorFlow's variable of a Keras 3 variable; `tf_keras` has no other."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def apply(optimizer: Any, gradients: Sequence[tf.Tensor], variables: Sequence[Any]) -> None:
    """Have `optimizer`, of Keras 3 or `tf_keras`, change `variables`."""
    if isinstance(optimizer, keras.optimizers.Optimizer):
        optimizer.apply(gradients, variables)
    else:
        optimizer.apply_gradients(zip(gradients, variables, strict=True), skip_gradients_aggregation=True)


def reduce_only_once(optimizer: Any) -> None:
    """Keep `optimizer` from adding up gradients over replicas, which the step has done already.

    Keras does it in `keras/src/backend/tensorflow/optimizer.py`, after clipping; ours comes before, so that
    clipping sees the gradient of the whole batch.
    """
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        return  # `apply` asks tf_keras for it
    name = "_all_reduce_sum_gradients"
    for each in (optimizer, getattr(optimizer, "inner_optimizer", optimizer)):
        if not callable(getattr(each, name, None)):
            raise TypeError(f"this version of Keras has no Optimizer.{name}: gradients would be added up twice")
        setattr(each, name, lambda grads_and_vars: grads_and_vars)


def _norm(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the norm of all, float32 []; a model may have several types of numbers."""
    return tf.linalg.global_norm([tf.cast(gradient, tf.float32) for gradient in gradients])


def _is_float(dtype: str) -> bool:
    return bool(tf.as_dtype(dtype).is_floating)
