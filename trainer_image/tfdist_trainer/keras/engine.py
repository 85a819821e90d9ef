"""Installs the engine: `fit`, `evaluate` and `predict` of Keras 3 under several workers.

Each replaced function of Keras checks the strategy first: a model of one worker, or of another strategy, is
left to Keras. docs/keras.md has what is replaced and why.
"""

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfdist_trainer import log
from tfdist_trainer.autograph import graph
from tfdist_trainer.keras import calls, losses, metric_states, optimizers, seeds
from tfdist_trainer.keras.checks import check_model
from tfdist_trainer.keras.decisions import (
    TEST_BATCH,
    TRAIN_BATCH,
    FollowChief,
    batch_callbacks,
    callback_list,
    worker_callbacks,
)
from tfdist_trainer.keras.epochs import Batches
from tfdist_trainer.keras.files import by_chief, on_this_worker, when_written
from tfdist_trainer.keras.fit_times import FitTimes
from tfdist_trainer.keras.local_data import drop_uncounted_predictions
from tfdist_trainer.keras.replica_step import current_step
from tfdist_trainer.keras.reporting import validation_batches
from tfdist_trainer.keras.step_function import StepFunction, compiled_train_step
from tfdist_trainer.upstream import iterator_deletion, keras_epochs, keras_fit, versions
from tfdist_trainer.upstream.strategy_worker import make_variables_numbers, worker_of


@functools.cache
def install() -> None:
    """Replace the functions of Keras, once in each process, if the trainer runs `fit` with its version."""
    # Hooks into another version could train silently wrong: `fit` is left to Keras (ADR 33).
    if not versions.hooks_serve(os.environ):
        log.event("keras-fit-off", versions=versions.untested(), reason=f"tested with {versions.REMEDY}")
        return
    # First: shuffles and splits of the script must be equal on all workers before it reads its data.
    seeds.set_common_seed(os.environ)
    # `fit` drops an iterator after each epoch, whose deletion may take up to a minute (ADR 41).
    iterator_deletion.install()
    # Scripts read `float(optimizer.learning_rate)`, which variables of a strategy reject.
    make_variables_numbers()
    # Losses stay means of the local batch; the exchange weighs them by the number of examples (ADR 33).
    keras_fit.wrap(keras_fit.REDUCE_LOSS, losses.reduce_weighted_values)
    keras_fit.wrap(keras_fit.MEAN, losses.update_mean)
    keras_fit.wrap(keras_fit.SCALE, losses.scale)
    keras_fit.wrap(keras_fit.UNSCALE, losses.scale)
    # The exchange is in `apply`, so that clipping, accumulation and loss scaling after it see the global gradient.
    keras_fit.wrap(keras_fit.APPLY, optimizers.apply)
    keras_fit.wrap(keras_fit.APPLY_SCALED, optimizers.apply)
    # Keras would add them up once more.
    keras_fit.wrap(keras_fit.ALL_REDUCE, optimizers.keep_gradients)
    keras_fit.wrap(keras_fit.SCALE_LOSS, optimizers.scale_loss)
    keras_fit.wrap(keras_fit.SCALE_SCALED_LOSS, optimizers.scale_loss)
    # All replicas would otherwise draw the same random numbers: they drop the same units.
    seeds.install()
    # Shows which variables a step changes by itself: those need an average, a sum or nothing.
    keras_fit.wrap(keras_fit.ASSIGN, _record_assignment)
    keras_fit.wrap(keras_fit.RESET_METRICS, _reset_metrics)
    # The states of metrics are reduced once in each call; read again by Keras they would be sums over replicas.
    keras_fit.wrap(keras_fit.EPOCH_LOGS, _epoch_logs)
    # Each worker reads all batches and takes its rows, which keeps the order of arrays (ADR 33).
    keras_fit.wrap(keras_epochs.EPOCH_ITERATOR, _epoch_iterator)
    # Keras reduces the first batch over replicas outside of a graph to build, which fails.
    keras_fit.wrap(keras_fit.SYMBOLIC_BUILD, _build)
    # Keras' loop over steps carries an optional through `tf.cond`, which fails under the strategy.
    keras_fit.wrap(keras_fit.TRAIN_FUNCTION, functools.partial(_step_function, "train"))
    keras_fit.wrap(keras_fit.TEST_FUNCTION, functools.partial(_step_function, "test"))
    keras_fit.wrap(keras_fit.PREDICT_FUNCTION, _predict_function)
    keras_fit.wrap(keras_fit.SYNCHRONIZED_MOMENTS, losses.synchronized_moments)
    # After the functions that they call; `script_training` and `reporting` wrap them once more, further outside.
    keras_fit.wrap(keras_fit.FIT, _fit)
    keras_fit.wrap(keras_fit.EVALUATE, _evaluate)
    keras_fit.wrap(keras_fit.PREDICT, _predict)
    keras_fit.wrap(keras_fit.TRAIN_BATCH_END, functools.partial(_batch_end, "train"))
    keras_fit.wrap(keras_fit.TEST_BATCH_END, functools.partial(_batch_end, "test"))
    keras_fit.wrap(keras_fit.PREDICT_ON_BATCH, _predict_on_batch)
    # Only the chief writes, else all workers would write to one path.
    for hook in (keras_fit.SAVE, keras_fit.SAVE_WEIGHTS, keras_fit.EXPORT, keras_fit.WRITE_OUT):
        keras_fit.wrap(hook, by_chief)
    # A worker that loads what it has "saved" waits for the chief's file.
    for hook in (keras_fit.LOAD, keras_fit.LOAD_EXPORTED):
        keras_fit.wrap(hook, functools.partial(when_written, path_of=lambda path, *_, **__: path))
    keras_fit.wrap(keras_fit.PARSE_EXPORTED, on_this_worker)
    weights_of = functools.partial(when_written, path_of=lambda _, filepath, *__, **___: filepath)
    keras_fit.wrap(keras_fit.LOAD_WEIGHTS, weights_of)


def _fit(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        worker = worker_of(self.distribute_strategy)
        if worker is None:
            return original(self, *args, **kwargs)
        bound = signature.bind(self, *args, **kwargs)
        # Before anything is traced: the same mistakes fail deep inside of TensorFlow, without a remedy.
        check_model(self)
        callbacks = callback_list(bound.arguments.get("callbacks"))
        # A callback that must see each batch forces one step in each call.
        sees_each = batch_callbacks(callbacks, TRAIN_BATCH)
        # Now, not in Keras' `fit`: steps and callbacks are chosen before it begins.
        self.make_train_function()
        _choose_steps_per_execution(self.train_function, self, sees_each)
        # Only the chief writes files, and all workers decide: `FollowChief` comes last, after all decisions of the
        # script.
        local_callbacks = [each for callback in callbacks for each in worker_callbacks(callback, worker)]
        follow = FollowChief(
            calls.comparison(self.distribute_strategy, worker),
            self.train_function.drift,
            validation_batches=validation_batches(**bound.arguments),
            each_batch=bool(sees_each),
        )
        bound.arguments["callbacks"] = [*local_callbacks, follow]
        times = self.train_function.times
        times.begin(callbacks)
        with calls.call_scope("fit", self.distribute_strategy, worker):
            result = original(*bound.args, **bound.kwargs)
        times.end()
        return result

    return fit


def _evaluate(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def evaluate(self: Any, *args: Any, **kwargs: Any) -> Any:
        worker = worker_of(self.distribute_strategy)
        if worker is None:
            return original(self, *args, **kwargs)
        bound = signature.bind(self, *args, **kwargs)
        self.make_test_function()
        sees_each = batch_callbacks(callback_list(bound.arguments.get("callbacks")), TEST_BATCH)
        _choose_steps_per_execution(self.test_function, self, sees_each)
        # A validation is a part of `fit`: data of all workers must be equal there, too.
        name = "validation" if keras_fit.is_validation(kwargs) else "evaluate"
        with calls.call_scope(name, self.distribute_strategy, worker):
            return original(self, *args, **kwargs)

    return evaluate


def _predict(original: Callable[..., Any]) -> Callable[..., Any]:
    def predict(self: Any, *args: Any, **kwargs: Any) -> Any:
        worker = worker_of(self.distribute_strategy)
        if worker is None:
            return original(self, *args, **kwargs)
        with calls.call_scope("predict", self.distribute_strategy, worker):
            # A variable: created inside of the traced step, `tf.function` would reject it.
            seeds.share_generator(self.distribute_strategy)
            return original(self, *args, **kwargs)

    return predict


def _batch_end(kind: str, original: Callable[..., None]) -> Callable[..., None]:
    def end(self: Any, batch: int, logs: Any = None) -> None:
        function = getattr(self.model, f"{kind}_function", None)
        # Keras names the last batch before the call, and the data may have ended within it.
        if isinstance(function, StepFunction):
            batch = keras_fit.last_batch(batch, function.steps) - function.missing
        original(self, batch, logs)

    return end


def _choose_steps_per_execution(function: StepFunction, model: Any, sees_each: Sequence[str]) -> None:
    """Use the steps per execution of `compile`, or one if callbacks must see each batch, or else tune them."""
    # What the script sets wins; then what its callbacks need; else the number is tuned.
    if model.steps_per_execution > 1:
        function.set_steps_per_execution(model.steps_per_execution)
    elif sees_each and function.set_steps_per_execution(1):
        log.event("one-step-per-call", because=", ".join(dict.fromkeys(sees_each)))
    elif not sees_each:
        function.set_steps_per_execution(None)


def _step_function(kind: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def make(self: Any, force: bool = False) -> Any:
        worker = worker_of(self.distribute_strategy)
        if worker is None:
            return original(self, force)
        if force or getattr(self, f"{kind}_function") is None:
            if kind == "train":
                self.train_function = StepFunction(self, compiled_train_step(self), worker, FitTimes(worker))
            else:
                self.test_function = StepFunction(self, self.test_step, worker)
        return None

    return make


def _predict_function(original: Callable[..., Any]) -> Callable[..., Any]:
    def make(self: Any, force: bool = False) -> Any:
        worker = worker_of(self.distribute_strategy)
        # Wrapped once: Keras keeps the function between calls.
        if worker is None or (self.predict_function is not None and not force):
            return original(self, force)
        original(self, force)
        self.predict_function = drop_uncounted_predictions(self.predict_function, worker)
        return None

    return make


def _epoch_iterator(original: Any) -> Callable[..., Any]:
    def create(*args: Any, distribute_strategy: Any = None, **kwargs: Any) -> Any:
        worker = worker_of(distribute_strategy)
        if worker is None:
            return original(*args, distribute_strategy=distribute_strategy, **kwargs)

        def make_batches(dataset: Any, steps: int, first: Any, smallest: int | None) -> Batches:
            # `predict` has no labels, and its rows must come out in order.
            ordered = "y" not in kwargs
            return Batches(
                dataset, distribute_strategy, worker, steps=steps, ordered=ordered, first=first, smallest=smallest
            )

        return keras_epochs.epoch_iterator(original, *args, make_batches=make_batches, **kwargs)

    return create


def _build(original: Callable[..., None]) -> Callable[..., None]:
    def build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        if worker_of(self.distribute_strategy) is None:
            original(self, iterator, data_batch)
        else:
            keras_fit.build(self, data_batch if iterator is None else iterator.batches.example())

    return build


def _predict_on_batch(original: Callable[..., Any]) -> Callable[..., Any]:
    def predict(self: Any, x: Any) -> Any:
        if worker_of(self.distribute_strategy) is None:
            return original(self, x)
        outputs = graph(self.predict_step)((tf.nest.map_structure(tf.convert_to_tensor, x),))
        return tf.nest.map_structure(lambda output: output.numpy(), outputs)

    return predict


def _reset_metrics(original: Callable[..., None]) -> Callable[..., None]:
    def reset(self: Any) -> None:
        with metric_states.reset_scope() if worker_of(self.distribute_strategy) else contextlib.nullcontext():
            original(self)

    return reset


def _epoch_logs(original: Callable[..., Any]) -> Callable[..., Any]:
    def epoch_logs(self: Any, logs: Any) -> Any:
        if worker_of(self.distribute_strategy) is None or not logs:
            return original(self, logs)
        return keras_fit.returned_logs(logs)

    return epoch_logs


def _record_assignment(original: Callable[..., None]) -> Callable[..., None]:
    def assign(self: Any, value: Any) -> None:
        # Outside of a step only a reset of metrics differs from Keras.
        step = current_step()
        if step is None:
            if metric_states.is_resetting() and metric_states.is_state(self):
                keras_fit.assign_copies(self, value)
            else:
                original(self, value)
            return
        # First the collective, as all replicas reach this line, then the record of what the step changes.
        value = step.sum_over_replicas(self, value)
        step.record(self, value)
        if self.aggregation == "only_first_replica":  # a counter, equal on all replicas
            keras_fit.assign_locally(self, value)
        else:
            original(self, value)

    return assign
