"""The train and test functions of a model under several workers: several steps in one `tf.function`, then one log.

Each step has one exchange, of the gradients. The logs are the metrics over all replicas, exchanged once for each call.
With `jit_compile=True` XLA compiles forward and backward of Keras' own `train_step`, and no collective.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import keras
import tensorflow as tf

from tfdist_trainer import log
from tfdist_trainer.autograph import graph
from tfdist_trainer.keras import metric_states
from tfdist_trainer.keras.drift import DriftCheck
from tfdist_trainer.keras.epochs import Block, StepsPerExecution
from tfdist_trainer.keras.fit_times import FitTimes
from tfdist_trainer.keras.local_data import with_a_row
from tfdist_trainer.keras.replica_step import ReplicaStep, required_step, step_scope
from tfdist_trainer.keras.seeds import share_generator
from tfdist_trainer.step_clock import has_clock, is_due, time_when, total_exchange_seconds
from tfdist_trainer.strategies.reduction import all_reduce_sum
from tfdist_trainer.upstream.keras_fit import LossOf, metric_results, overrides, statistics, without_optionals
from tfdist_trainer.upstream.keras_layers import synchronized_statistics
from tfdist_trainer.upstream.strategy_worker import Worker, local_updates


class CallObserver(Protocol):
    """Is notified of the calls of a train function, and passes a flag of its worker to all workers."""

    def before_call(self) -> None:
        """Act between two calls: all callbacks have seen the batches of the last one."""

    def flag(self) -> bool:
        """Return the flag of this worker."""

    def after_call(self, steps: int, flag: bool, metrics: Sequence[Any]) -> None:
        """Record a call of `steps` steps: whether any worker had set its flag, and the states of all metrics."""


class StepFunction:
    """Runs the steps of a `Block`, as Keras calls it: `function(block)` returns the logs."""

    def __init__(self, model: Any, step: Callable[[Any], Any], worker: Worker, times: FitTimes | None = None) -> None:
        """Use `step`, the model's `train_step` or `test_step`; measure with `times`, of training."""
        self.steps_per_execution = StepsPerExecution(None)
        self.steps = 1
        """Steps of the last call, before it was known whether the data has as many."""
        self.missing = 0
        """Steps that the last call lacks because the data ended, if their number is tuned."""
        self.observer: CallObserver | None = None
        self.times = times
        self.drift = DriftCheck()
        self._model = model
        self._step = without_optionals(model, step)
        self._worker = worker
        self._strategy = model.distribute_strategy
        self._seconds = 0.0
        self._assigned: list[Any] = []
        self._changes: dict[int, metric_states.Change] = {}
        """What steps do to the state of a metric, by the identity of the variable."""
        self._own_weights: dict[int, Any] = {}
        """What `ReplicaStep.own_weights` has of all traces: a `tf.function` of the model is not traced in each."""
        self._returns_more = overrides(model, "train_step", "test_step", "compute_metrics")
        """Whether a step may return other logs than the results of the metrics."""
        # Known after a trace only: whether a gradient is sparse is not in the layers.
        self._has_joined_rows: bool | None = None
        """Whether a step exchanges sparse gradients; None before it is traced."""
        compiled = graph if not model.run_eagerly else _eager
        self._single_step = compiled(self._step_on, reduce_retracing=True)
        self._multiple_steps = graph(self._steps_on, reduce_retracing=True)
        self._results = compiled(self._results_of)

    def set_steps_per_execution(self, steps: int | None) -> bool:
        """Run `steps` steps in one call, or with None as many as take half a second; return whether it changed."""
        if steps == self.steps_per_execution.fixed:
            return False  # a tuned number continues
        self.steps_per_execution = StepsPerExecution(steps)
        return True

    def __call__(self, iterator: Any) -> Mapping[str, Any]:
        """Run the steps of a block, or one step on each batch of any other iterator; return the logs.

        Raises:
            StopIteration: the data has ended.
        """
        # A variable: it must exist before a step is traced.
        share_generator(self._strategy)
        # As a script calls it that drives the train function itself.
        if not isinstance(iterator, Block):
            outputs = None
            for batch in iterator:
                outputs, _ = self._single_step(batch, tf.constant(True), may_be_empty=True)
            logs: Mapping[str, Any] = self._results(outputs, tf.zeros([2]))[0]
            return logs
        iterator.source.steps_per_execution = self.steps_per_execution
        if self.observer is not None:
            # Between two calls all callbacks have seen the last batches: the moment for a checkpoint (ADR 34).
            self.observer.before_call()
        started = time.monotonic()
        run = self._in_one_call if self._fits_one_call(iterator) else self._one_by_one
        logs, states, means, finished, waits = run(iterator)
        iterator.finished, self.steps = finished, iterator.steps
        # Keras names the last batch of a block before it runs: callbacks get the number without the missing steps.
        self.missing = 0 if self.steps_per_execution.fixed else iterator.steps - finished
        # The data has ended at the border of a block, which Keras sees only now.
        if not finished:
            raise StopIteration
        seconds, flagged, *shared = means.numpy()
        self.steps_per_execution.observe(float(seconds))
        elapsed = time.monotonic() - started
        self._seconds = elapsed / finished
        if self.times is not None:
            self.times.receive(shared, finished * float(seconds))
            self.times.observe(finished, elapsed, *waits.numpy())
        if self.observer is not None:
            self.observer.after_call(finished, flagged > 0, states)
        return logs

    def _scalars_to_average(self) -> tf.Tensor:
        """Return what is averaged over all workers, float32 [n].

        It is the seconds of a step of the last call, the flag, and what `FitTimes` shares.
        """
        # The wish to stop travels with the metrics, which all workers wait for anyway (ADR 34).
        flag = float(self.observer is not None and self.observer.flag())
        return tf.constant([self._seconds, flag, *(self.times.figures_to_share() if self.times is not None else ())])

    def _fits_one_call(self, block: Block) -> bool:
        """Return whether several steps can be one graph.

        TensorFlow rejects a collective with another shape in a later step of one call, as sparse gradients have.
        """
        # TensorFlow's distributed iterator cannot be read inside of a loop in a graph.
        if not block.source.takes_rows or self._model.run_eagerly:
            return False
        if self._has_joined_rows is None:
            self._trace(block.iterator, block.source.may_be_empty)
        return not self._has_joined_rows

    def _trace(self, iterator: Any, may_be_empty: bool) -> Any:
        """Return one step on the batches of `iterator` as a graph."""
        return self._single_step.get_concrete_function(  # type: ignore[attr-defined]
            iterator.element_spec, tf.TensorSpec([], tf.bool), may_be_empty=may_be_empty
        )

    def _in_one_call(self, block: Block) -> "_CallResults":
        *results, finished, waits = self._multiple_steps(
            block.iterator, tf.constant(block.steps), self._scalars_to_average(), block.source.may_be_empty
        )
        return *results, int(finished), waits

    def _one_by_one(self, block: Block) -> "_CallResults":
        outputs, finished, waits = None, 0, [tf.zeros([2], tf.float64)]
        started_at = time.monotonic()
        # The range first: it ends the block without taking a batch of the next one.
        for finished, batch in zip(range(1, block.steps + 1), block.iterator, strict=False):
            input_wait = time.monotonic() - started_at
            last = tf.constant(finished == block.steps)
            outputs, exchange = self._single_step(batch, last, may_be_empty=block.source.may_be_empty)
            waits.append(tf.stack([tf.constant(input_wait, tf.float64), exchange]))
            started_at = time.monotonic()
        return *self._results(outputs, self._scalars_to_average()), finished, _total_waits(tf.add_n(waits), finished)

    def _steps_on(self, iterator: Any, steps: tf.Tensor, of_worker: tf.Tensor, may_be_empty: bool) -> Any:
        """Run up to `steps` steps; return the results as `_results_of`, the number of steps, and the waits.

        The waits are seconds for the input and in the exchange of gradients, float64 [2].
        """
        # The loop needs the types of its variables before the first step.
        loop_outputs = _Carried(self._trace(iterator, may_be_empty).structured_outputs[0])
        timed = self._is_timed()

        def has_next(finished: tf.Tensor, batch: Any, *_: tf.Tensor) -> tf.Tensor:
            # The end of the data is a condition of the loop. An error within the graph would cut off updates of the
            # step before, and run those of the next one that do not depend on the batch (ADR 33).
            return tf.logical_and(finished < steps, batch.has_value())

        def body(finished: tf.Tensor, batch: Any, waits: tf.Tensor, *_: tf.Tensor) -> tuple[Any, ...]:
            outputs, exchange = self._single_step(
                batch.get_value(), tf.equal(finished + 1, steps), may_be_empty=may_be_empty
            )
            # Not beyond the block: its last call must leave the next batch to the next one.
            following = tf.cond(finished + 1 < steps, iterator.get_next_as_optional, lambda: batch)
            if timed:  # The next batch is fetched during the step.
                ended = time_when(exchange)
                waits += tf.stack([time_when((following, ended)) - ended, exchange])
            return (finished + 1, following, waits, *loop_outputs.tensors(outputs))

        started_at = tf.timestamp() if timed else None
        first = iterator.get_next_as_optional()
        waits = tf.stack([time_when(first) - started_at, 0.0]) if timed else tf.zeros([2], tf.float64)
        finished, _, waits, *last = tf.while_loop(has_next, body, (tf.constant(0), first, waits, *loop_outputs.zeros()))
        return *self._results_of(loop_outputs.outputs(last), of_worker), finished, _total_waits(waits, finished)

    def _is_timed(self) -> bool:
        return self.times is not None and has_clock()

    def _step_on(self, batch: Any, last: tf.Tensor, *, may_be_empty: bool) -> tuple[Any, tf.Tensor]:
        """Return what `_replica` returns on each replica, and the seconds in the exchange of gradients, float64 [].

        `last`, bool [], is whether this is the last step of a call.
        """
        # Gradients are equal on all replicas, so each updates its own copy; `merge_call` in a `tf.cond` would fail (ADR
        # 33).
        with local_updates(self._strategy):
            *outputs, exchange_wait = self._strategy.run(self._replica, args=(batch, last, may_be_empty))
        # The local replica that computes longest waits least; a worker is as slow as its slowest replica.
        return tuple(outputs), tf.reduce_min(self._strategy.experimental_local_results(exchange_wait))

    def _replica(self, batch: Any, last: tf.Tensor, may_be_empty: bool) -> tuple[Any, tf.Tensor, tf.Tensor]:
        """Run one step on one replica.

        Return what the model's step returns, the number of examples, and the seconds in the exchange of gradients.
        Keras' own steps return the results of all metrics, which `_results_of` computes once for several steps.
        """
        context = tf.distribute.get_replica_context()
        batch, rows = with_a_row(batch, may_be_empty=may_be_empty)
        examples = tf.cast(rows, tf.float32)
        step = ReplicaStep(
            examples,
            self._worker.replicas,
            tf.cast(context.replica_id_in_sync_group, tf.int32),
            may_be_empty=may_be_empty,
            due=is_due(last) if self._is_timed() else False,
        )
        # Read before the step: a step without examples must leave no trace in metrics and statistics.
        before = self._state() if may_be_empty else {}
        # From here on the hooks of `engine` find the step by the thread.
        with step_scope(step):
            outputs = self._step(batch)
        self._average_own_weights(step)
        self._record_changes(step)
        self._assigned = statistics(self._model, step.assigned)
        self._has_joined_rows = step.has_joined_rows
        if may_be_empty:
            self._restore_empty(before, step)
        return outputs if self._returns_more else None, examples, step.exchange_wait

    def _average_own_weights(self, step: ReplicaStep) -> None:
        """Average the weights that `step` has assigned itself, and name the first one once."""
        if step.own_weights and not self._own_weights:
            first, *_ = step.own_weights.values()
            log.event(
                "weights-averaged",
                model=self._model.name,
                variable=first.path,
                of=len(step.own_weights),
                reason="the step assigns values of the local batch to weights, without an optimizer: each step sets "
                "them to their mean over the workers, which is exact for updates linear in the gradient",
            )
        # Of all traces: a later trace may not run the code that assigns them.
        self._own_weights |= step.own_weights
        step.average(list(self._own_weights.values()))

    def _record_changes(self, step: ReplicaStep) -> None:
        """Record what `step` does to the states of metrics, and name each that may differ from one worker's."""
        for key, (variable, change) in step.changes.items():
            known = self._changes.get(key, "none")
            self._changes[key] = metric_states.join_changes(known, change)
            reason = metric_states.doubt(variable, self._changes[key])
            if reason and self._changes[key] != known:
                log.event("metric-not-a-sum", model=self._model.name, state=variable.path, reason=reason)

    def _restore_empty(self, before: Mapping[int, tf.Tensor], step: ReplicaStep) -> None:
        """Undo what a `step` without examples did to metrics and to statistics of its batch.

        Synchronized statistics are of all replicas, so a replica without examples has the right ones.
        """
        examples, local = step.examples, step.local - synchronized_statistics(self._model)
        for variable in self._model.metrics_variables:
            if id(variable) in before:
                value = variable.value
                value.assign(tf.where(examples > 0, value.read_value(), before[id(variable)]))
        for variable in self._assigned:
            if id(variable) in before and id(variable) in local:
                value = variable.value
                value.assign(tf.where(examples > 0, value.read_value(), before[id(variable)]))

    def _state(self) -> dict[int, tf.Tensor]:
        """Return what a step without examples must not change."""
        variables = [*self._model.metrics_variables, *self._model.non_trainable_variables]
        return {id(variable): variable.value.read_value() for variable in variables}

    def _results_of(self, outputs: Any, of_worker: tf.Tensor) -> tuple[Any, Any, Any]:
        """Return the logs after a step with these `outputs`, the states of metrics, and the means of `of_worker`."""
        with local_updates(self._strategy):
            states, means = self._strategy.run(self._reduce_states, args=(of_worker,))
            results = metric_results(self._model, self._local(states))
            local_outputs = None if outputs is None else self._local(outputs)[0]
            logs = results[0] if local_outputs is None else _named_as(local_outputs, results)
            # The step returns values of its own, and not the results of metrics: their means over the examples.
            if logs is None:
                logs = self._local(self._strategy.run(self._means, args=(outputs,)))
        return logs, self._local(states), self._local(means)

    def _reduce_states(self, of_worker: tf.Tensor) -> Any:
        """Return the states of all metrics, and set statistics, such as BatchNormalization's, to their mean."""
        replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.int32)
        replicas = self._worker.replicas
        variables = self._model.metrics_variables
        ways = [metric_states.reduction(each, self._changes.get(id(each), "none")) for each in variables]
        pairs = list(zip(variables, ways, strict=True))
        metrics = [metric_states.to_sum(each.value.read_value(), way, replica, replicas) for each, way in pairs]
        averaged = [variable.value for variable in self._assigned]
        # One collective for all metrics, statistics and figures, once in each call.
        sums = all_reduce_sum([*metrics, *(each.read_value() for each in averaged), tf.identity(of_worker)], replicas)
        means = sums[len(metrics) : -1]
        for variable, total in zip(averaged, means, strict=True):
            variable.assign(total / tf.cast(replicas, total.dtype))
        states = [metric_states.from_sum(total, way, replicas) for total, way in zip(sums, ways, strict=False)]
        return states, sums[-1] / replicas

    def _means(self, outputs: tuple[Any, tf.Tensor]) -> Any:
        values, examples = outputs
        step = ReplicaStep(examples, self._worker.replicas, tf.constant(0), may_be_empty=True)
        return tf.nest.pack_sequence_as(values, step.weighted_means(tf.nest.flatten(values)))

    def _local(self, value: Any) -> Any:
        """Return the first local replica's part of each value."""
        return tf.nest.map_structure(lambda each: self._strategy.experimental_local_results(each)[0], value)


def _named_as(outputs: Any, results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the results of metrics that have the names of the `outputs` of a step; None if none have."""
    names = set(outputs) if isinstance(outputs, Mapping) else None
    return next((each for each in results if set(each) == names), None)


def _total_waits(waits: tf.Tensor, steps: Any) -> tf.Tensor:
    """Return the waits of `steps` steps, from the measured ones, seconds for input and exchange, float64 [2]."""
    return tf.stack([waits[0], total_exchange_seconds(waits[1], steps)])


_CallResults = tuple[Mapping[str, Any], Sequence[Any], Any, int, Any]
"""Logs, states of metrics, means over all workers, number of steps, and waits, of a call."""


class _Carried:
    """The outputs of a step as variables of a loop, which need values before the first step."""

    def __init__(self, structure: Any) -> None:
        self._structure = structure
        self._specs = tf.nest.flatten(self._structure, expand_composites=True)

    def zeros(self) -> list[tf.Tensor]:
        """Return values of the shapes and types of the outputs."""
        return [tf.zeros([size or 0 for size in spec.shape], spec.dtype) for spec in self._specs if spec is not None]

    def tensors(self, outputs: Any) -> list[tf.Tensor]:
        """Return the tensors of the outputs of a step."""
        return [each for each in tf.nest.flatten(outputs, expand_composites=True) if each is not None]

    def outputs(self, tensors: list[tf.Tensor]) -> Any:
        """Return the outputs with these tensors."""
        remaining = iter(tensors)
        values = [None if spec is None else next(remaining) for spec in self._specs]
        return tf.nest.pack_sequence_as(self._structure, values, expand_composites=True)


def _eager(function: Callable[..., Any], **_options: Any) -> Callable[..., Any]:
    return function


def compiled_train_step(model: Any) -> Callable[[Any], Any]:
    """Return the `train_step` of `model`, compiled if `jit_compile` is set and the step is Keras' own.

    A `train_step` of the script contains the exchange of gradients, which XLA cannot compile; it runs as it is.
    """
    step: Callable[[Any], Any] = model.train_step
    # A step of the script contains the exchange of gradients, which XLA cannot compile.
    if not model.jit_compile or model.run_eagerly or overrides(model, "train_step"):
        return step
    loss_of = LossOf(model)

    def compiled(data: Any) -> Any:
        x, y, weight = keras.utils.unpack_x_y_sample_weight(data)

        def forward_and_backward(x: Any, y: Any, weight: Any) -> tuple[Any, tf.Tensor, list[Any]]:
            with tf.GradientTape() as tape:
                predictions, loss = loss_of(x, y, weight)
                scaled = model.optimizer.scale_loss(loss)
            return predictions, loss, tape.gradient(scaled, model.trainable_weights)

        # XLA can compile no collective: hooks that would add one raise an error.
        with required_step().compile_scope():
            predictions, loss, gradients = graph(forward_and_backward, jit_compile=True)(x, y, weight)
        # Outside of the compiled part, as everything that is exchanged.
        loss_of.track(loss, x)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        return model.compute_metrics(x, y, predictions, sample_weight=weight)

    return compiled
