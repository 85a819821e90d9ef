"""Training and evaluation steps on every replica; several steps run in one `tf.function` (steps per execution).

A step has one collective, whatever the number of variables: an all-reduce of gradients and metric sums as one vector.
The gradient is of the *sum* of weighted losses, divided by the weight of all replicas after the all-reduce. So a
member with few or no examples neither delays nor distorts the step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import keras
import tensorflow as tf

from tfdist_trainer import step_variables
from tfdist_trainer.autograph import graph
from tfdist_trainer.data.pipeline import Batch
from tfdist_trainer.keras import seeds
from tfdist_trainer.keras_compat import raw
from tfdist_trainer.kernels import adam, batch_normalization, embedding
from tfdist_trainer.metrics.additive import WeightedMean
from tfdist_trainer.metrics.collection import MetricCollection
from tfdist_trainer.programs.base import Program
from tfdist_trainer.programs.traced import CALL, traceable
from tfdist_trainer.replica_loss import (
    add_to_sums,
    additional_loss,
    as_float32,
    first_valid,
    has_additional_loss,
    per_example,
    without_uncounted,
    zero_unless,
)
from tfdist_trainer.step_clock import is_due, timed_next, total_exchange_seconds
from tfdist_trainer.step_variables import UndoneVariables
from tfdist_trainer.strategies.reduction import all_reduce_sum, timed_all_reduce_mean
from tfdist_trainer.strategies.replica_group import ReplicaGroup
from tfdist_trainer.upstream.keras_optimizers import disable_gradient_reduction

_LOSS_SUMS: Final = 3
"""The first sums of a step: the number of examples, the weighted loss, the weight. Metrics may be undefined."""


def metric_sums(program: Program) -> MetricCollection:
    """Return the metrics that the steps of `program` sum up, the loss first."""
    loss = WeightedMean("loss", traceable(program, "loss()", program.loss))
    return MetricCollection([loss, *program.metrics()], lambda name, sums: traceable(program, name, sums))


class StepStats(NamedTuple):
    """Statistics of one execution of training steps; tensors inside the graph."""

    sums: Any
    """Sums of loss and metrics over all replicas, float64 [sums.size]."""
    gradient_norm: Any
    """Global norm of the gradient of the mean loss in the last step, float32 []. Only that step computes it, unless
    `skip` needs it in every step: for small models the norm takes longer than the gradient."""
    not_finite: Any
    """Steps with a non-finite loss or gradient, float32 [], so that it stays on a GPU. With `skip` they have changed
    nothing. Without it all steps from the first one on count; a gradient alone is checked only in the last step."""
    done: Any
    """Finished steps, int32 []."""
    input_wait: Any
    """Seconds that this member waited for its input pipeline, float64 []."""
    exchange_wait: Any
    """Seconds that this member spent in the all-reduces of gradients, float64 []: mostly waiting for slower members."""


@dataclass(frozen=True, slots=True)
class StepOptions:
    """Options of the training step."""

    skip: bool = False
    """Whether to skip a step with a non-finite loss or gradient, and continue."""
    compiled: bool = False
    """Whether XLA compiles the computation of a replica (`jit_compile`); collectives stay outside."""
    timed: bool = True
    """Whether to measure the waits; TensorFlow's clock is not available in deterministic mode."""


class TrainStep:
    """Trains `model`, several steps per execution."""

    def __init__(self, gang: ReplicaGroup, program: Program, model: Any, optimizer: Any, options: StepOptions) -> None:
        self._gang = gang
        self._loss = traceable(program, "loss()", program.loss)
        self._model = model
        self._predict = traceable(program, f"{CALL} with training=True", model)
        self._optimizer = optimizer
        self._options = options
        self._sums = metric_sums(program)
        self._variables = [raw(variable) for variable in model.trainable_variables]
        step_variables.check_optimizer(gang, optimizer)
        self._scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        # The gradient of an embedding is sparse: a dense one would send all rows to the parameter servers.
        self._sparse = bool(gang.member.cluster) and not options.skip
        self._is_keras_3 = isinstance(optimizer, keras.optimizers.Optimizer)
        if self._is_keras_3:  # `apply` passes skip_gradients_aggregation to tf_keras
            # The step adds gradients up itself, before clipping; Keras would do it once more.
            disable_gradient_reduction(optimizer)
        if self._sparse:
            embedding.gather_rows(model)
        if gang.replicas > 1:
            seeds.install()
        adam.fuse(optimizer)
        batch_normalization.fuse(model)
        self._undone = UndoneVariables(self._changed_by_skipped_step())
        self.graph = graph(self._execute)
        """(iterator, number of steps[, examples of the last step, int32 []]) -> `StepStats` of tensors."""

    def run(self, iterator: Any, steps: int) -> StepStats:
        """Run `steps` steps and return their statistics in NumPy types; a collective."""
        return StepStats(*(part.numpy() for part in self.graph(iterator, tf.constant(steps))))

    def _execute(self, iterator: Any, steps: tf.Tensor, last_size: tf.Tensor | None = None) -> StepStats:
        def step(stats: StepStats) -> tuple[StepStats]:
            if self._options.timed:
                batch, seconds = timed_next(iterator, after=stats.sums)
            else:
                batch, seconds = iterator.get_next(), tf.constant(0.0, tf.float64)
            finished = stats.done + 1
            if last_size is not None:
                batch = first_valid(Batch(*batch), tf.where(tf.equal(finished, steps), last_size, tf.int32.max))
            with step_variables.update_scope(self._gang, self._optimizer):
                results = self._gang.strategy.run(self._replica, args=(batch, tf.equal(finished, steps)))
            sums, norm, finite = (self._gang.local(result) for result in results[:-1])
            # The local replica that computes longest waits least; a member is as slow as its slowest replica.
            exchange_wait = tf.reduce_min(self._gang.strategy.experimental_local_results(results[-1]))
            invalid = tf.logical_not(finite)
            if not self._options.skip:
                invalid = tf.logical_or(invalid, stats.not_finite > 0)
            not_finite = stats.not_finite + tf.cast(invalid, tf.float32)
            waits = (stats.input_wait + seconds, stats.exchange_wait + exchange_wait)
            return (StepStats(stats.sums + sums, norm, not_finite, finished, *waits),)

        zero, no_wait = tf.constant(0.0), tf.constant(0.0, tf.float64)
        initial = StepStats(tf.zeros([self._sums.size], tf.float64), zero, zero, tf.constant(0), no_wait, no_wait)
        # The condition reads no result of a step: on a GPU the host would wait for each one.
        (stats,) = tf.while_loop(lambda stats: stats.done < steps, step, (initial,))
        stats = StepStats(*stats)
        return stats._replace(exchange_wait=total_exchange_seconds(stats.exchange_wait, stats.done))

    def _replica(self, batch: Batch, last: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Run one step on one replica.

        Return (sums over all replicas, norm of the gradient, whether finite, seconds in the all-reduce).
        """
        if self._options.compiled and self._gang.replicas == 1:
            results: tuple[tf.Tensor, ...] = graph(self._step, jit_compile=True)(Batch(*batch), last)
            return results
        return self._step(Batch(*batch), last)

    def _step(self, batch: Batch, last: tf.Tensor) -> tuple[tf.Tensor, ...]:
        before = self._undone.read() if self._options.skip else []
        # Before the model sees it: an infinite loss of an example that does not count would make the gradient NaN.
        batch = without_uncounted(batch)
        # Gradients, sums and weight as one vector: one collective for each step (ADR 4).
        parts, due = self._local_parts(batch), is_due(last) if self._options.timed else False
        (*gradients, sums), exchange_wait = timed_all_reduce_mean(parts, self._gang.replicas, due=due)
        finite = tf.math.is_finite(tf.reduce_sum(sums[:_LOSS_SUMS]))
        checked = last if not self._options.skip else tf.constant(True)
        # For small models the norm takes longer than the gradient: only the last step of an execution has it.
        norm = tf.cond(checked, lambda: _norm(gradients), lambda: tf.constant(0.0))
        if self._scaled:
            # Loss scaling probes for the largest scale: it expects infinite gradients, and skips such steps itself.
            norm /= tf.cast(raw(self._optimizer.dynamic_scale), norm.dtype)
        else:
            finite = tf.logical_and(finite, tf.math.is_finite(norm))
        if self._options.skip:
            # The first sum, the number of examples, is always valid.
            sums = tf.where(tf.logical_or(finite, tf.range(self._sums.size) == 0), sums, tf.zeros_like(sums))
        self._apply(gradients, finite)
        # After the update, where no branch may contain it.
        self._undone.restore(before, unless=finite)
        return tf.cast(sums, tf.float64), norm, finite, exchange_wait

    def _changed_by_skipped_step(self) -> Sequence[Any]:
        """Return the variables that a step with a non-finite loss or gradient changes before it is skipped."""
        if not self._options.skip:
            return ()
        if self._applies_in_branch:
            return list(self._model.non_trainable_variables)
        # The scale of the loss stays changed.
        optimizer = getattr(self._optimizer, "inner_optimizer", self._optimizer)
        return [*self._model.variables, *optimizer.variables]

    @property
    def _applies_in_branch(self) -> bool:
        """Whether a skipped step does not call the optimizer; else its changes are undone.

        Several replicas update their copies by a call of the strategy, which no branch can contain. On parameter
        servers undoing a change would undo other workers' changes as well.
        """
        return self._options.skip and self._gang.replicas == 1 and not self._scaled

    def _apply(self, gradients: Sequence[tf.Tensor], finite: tf.Tensor) -> None:
        if self._sparse and self._is_keras_3:
            gradients = embedding.dense_gradients(gradients, self._variables)

        def update() -> None:
            step_variables.apply_gradients(self._optimizer, gradients, self._model.trainable_variables)

        if self._applies_in_branch:
            tf.cond(finite, update, lambda: None)
        else:
            update()

    def _local_parts(self, batch: Batch) -> list[tf.Tensor]:
        """Return the parts of `_local`, compiled by XLA if several replicas are to be: collectives stay outside."""
        if not self._options.compiled or self._gang.replicas == 1:
            return self._local(batch, None)
        # A separate function for each replica, because it captures the variables of that replica.
        compiled = graph(self._local, jit_compile=True)
        totals = None
        if has_additional_loss(self._predict, self._model, batch.features):
            totals = self._totals(batch)
        return compiled(batch, totals)

    def _totals(self, batch: Batch) -> list[tf.Tensor]:
        """Return the weight and the number of examples of all replicas, float32 [] each; a collective."""
        examples = tf.reduce_sum(tf.cast(batch.valid_mask, tf.float32))
        return all_reduce_sum([tf.reduce_sum(batch.weights), examples], self._gang.replicas)

    def _local(self, batch: Batch, totals: list[tf.Tensor] | None) -> list[tf.Tensor]:
        """Return the gradients, the metric sums and the weight of this replica.

        The gradients are of the sum of weighted losses; with one replica, and with additional losses, of their
        mean over all replicas, which saves a division for each. With a loss scale the sum and the weight are divided by
        the size of the batch.

        Args:
            batch: of this replica.
            totals: what `_totals` returns, if the model has additional losses and this is to have no collective.
        """
        weight = tf.reduce_sum(batch.weights)
        examples = tf.reduce_sum(tf.cast(batch.valid_mask, tf.float32))
        has_examples, divisor = weight > 0, weight
        with tf.GradientTape() as tape:
            predictions = as_float32(self._predict_in_training(batch.features))
            losses = per_example(self._loss(batch.labels, predictions), batch.weights)
            loss = tf.reduce_sum(tf.where(batch.weights > 0, losses * batch.weights, tf.zeros_like(losses)))
            additional = additional_loss(self._model)
            if additional is not None:
                weights, all_examples = self._totals(batch) if totals is None else totals
                share = tf.math.divide_no_nan(examples, all_examples)
                loss = tf.math.divide_no_nan(loss, weights) + additional * share
                has_examples = tf.logical_or(has_examples, examples > 0)
                divisor = tf.constant(1 / self._gang.replicas)
            elif self._gang.replicas == 1:
                loss = tf.math.divide_no_nan(loss, weight)
            elif self._scaled:
                # In float16 gradients of the sum overflow at scales at which gradients of the mean do not.
                loss, divisor = loss / batch.weights.shape[0], weight / batch.weights.shape[0]
            scaled = self._optimizer.scale_loss(loss) if self._scaled else loss
        # Each replica must send a gradient for each variable.
        unconnected = tf.UnconnectedGradients.ZERO
        gradients = tape.gradient(scaled, self._variables, None, unconnected)
        if self._sparse:
            gradients = embedding.without_duplicates(gradients)
        else:
            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        # Without examples gradients may be NaN, also of a loss with the weight 0.
        gradients = zero_unless(has_examples, gradients)
        sums = self._sums.sums(batch.labels, predictions, batch.weights, batch.valid_mask, losses=losses)
        # float32, to share the all-reduce of the gradients. Within one step counts stay exact, up to 2**24.
        return [*gradients, tf.cast(add_to_sums(sums, additional), tf.float32), divisor]

    def _predict_in_training(self, features: Any) -> Any:
        """Return the predictions for a batch, with random numbers that differ between replicas."""
        if self._gang.replicas == 1:
            return self._predict(features, training=True)
        # Else all replicas would drop the same units.
        with seeds.replica_scope(tf.distribute.get_replica_context().replica_id_in_sync_group):
            return self._predict(features, training=True)


class EvaluateStep:
    """Evaluates `model`, several steps per execution."""

    def __init__(self, gang: ReplicaGroup, program: Program, model: keras.Model) -> None:
        self._gang = gang
        self._model = model
        self._predict = traceable(program, CALL, model)
        self._sums = metric_sums(program)
        self.run = graph(self._execute)
        """(iterator, number of steps) -> the sums of these steps over all replicas, float64 [sums.size]."""

    def _execute(self, iterator: Any, steps: tf.Tensor) -> tf.Tensor:
        def step(finished: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            sums = self._gang.strategy.run(self._replica, args=(iterator.get_next(),))
            return finished + 1, total + self._gang.local(sums)

        initial = tf.zeros_like(steps), tf.zeros([self._sums.size], tf.float64)
        _, total = tf.while_loop(lambda finished, _: finished < steps, step, initial)
        return total

    def _replica(self, batch: Batch) -> tf.Tensor:
        batch = Batch(*batch)
        predictions = as_float32(self._predict(batch.features, training=False))
        sums = self._sums.sums(batch.labels, predictions, batch.weights, batch.valid_mask)
        sums = add_to_sums(sums, additional_loss(self._model))
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, sums)


def _norm(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the global norm, float32 []; the gradients may have different dtypes."""
    return tf.linalg.global_norm([tf.cast(gradient, tf.float32) for gradient in gradients])
