"""Private hooks of Keras' `fit`, `evaluate` and `predict`: what `tfdist_trainer.keras` replaces and reads of them.

keras-team/keras#20585: `fit` fails under `MultiWorkerMirroredStrategy` with several workers, because
`_maybe_symbolic_build` and `reduce_per_replica` reduce values that do not span all workers.
"""

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import keras
import tensorflow as tf

from tfdist_trainer.upstream.hook import Hook
from tfdist_trainer.upstream.versions import keras_is_before

_TRAINER: Final = "keras.src.backend.tensorflow.trainer"
_LOSS: Final = "keras.src.losses.loss"
_KERAS_FIT: Final = "`fit` under several workers is left to Keras, and fails"

_PUBLIC: Final = dict.fromkeys(
    ("save_model", "load_model", "save_weights", "load_weights"),
    ("keras.saving", "keras.models", "keras._tf_keras.keras.saving", "keras._tf_keras.keras.models"),
)

Loss = Callable[..., Any]
"""Keras' reduction of the losses of a batch: (values, sample_weight, mask, reduction, dtype) -> loss."""


def _hook(name: str, reason: str, parameters: tuple[str, ...] | None = None) -> Hook:
    return Hook(package="keras", name=name, reason=reason, missing=_KERAS_FIT, parameters=parameters)


TRAIN_FUNCTION: Final = _hook(
    f"{_TRAINER}:TensorFlowTrainer.make_train_function",
    "Keras' loop of several steps carries an optional through `tf.cond`, which fails under the strategy.",
    ("self", "force"),
)
TEST_FUNCTION: Final = _hook(
    f"{_TRAINER}:TensorFlowTrainer.make_test_function", "As `make_train_function`.", ("self", "force")
)
PREDICT_FUNCTION: Final = _hook(
    f"{_TRAINER}:TensorFlowTrainer.make_predict_function",
    "A worker without rows predicts one that is cut off the predictions of all workers.",
    ("self", "force"),
)
SYMBOLIC_BUILD: Final = _hook(
    f"{_TRAINER}:TensorFlowTrainer._maybe_symbolic_build",
    "It reduces the first batch over replicas outside of a graph, which fails; it needs only shapes.",
    ("self", "iterator", "data_batch"),
)
BUILD: Final = _hook(
    f"{_TRAINER}:TensorFlowTrainer._symbolic_build",
    "Builds model, metrics, loss and optimizer from the shapes of a batch.",
    ("self", "iterator", "data_batch"),
)
REDUCE_LOSS: Final = _hook(
    f"{_LOSS}:reduce_weighted_values",
    "A loss other than a mean over examples needs a scale of its own to be exact.",
    ("values", "sample_weight", "mask", "reduction", "dtype"),
)
MASK: Final = _hook(
    f"{_LOSS}:apply_mask", "The weights that such a loss divides by.", ("sample_weight", "mask", "dtype", "reduction")
)
SCALE: Final = _hook(
    f"{_LOSS}:scale_loss_for_distribution",
    "Keras divides by the number of replicas, which is exact for batches of one size only.",
    ("value",),
)
UNSCALE: Final = _hook(f"{_LOSS}:unscale_loss_for_distribution", "Undoes that division for the logs.", ("value",))
APPLY: Final = _hook(
    "keras.src.optimizers.base_optimizer:BaseOptimizer.apply",
    "Gradients are exchanged before they are clipped, scaled and accumulated.",
    ("self", "grads", "trainable_variables"),
)
APPLY_SCALED: Final = _hook(
    "keras.optimizers:LossScaleOptimizer.apply",
    "As `Optimizer.apply`, which it overrides.",
    ("self", "grads", "trainable_variables"),
)
ALL_REDUCE: Final = _hook(
    "keras.optimizers:Optimizer._all_reduce_sum_gradients",
    "The gradients are exchanged already.",
    ("self", "grads_and_vars"),
)
SCALE_LOSS: Final = _hook(
    "keras.src.optimizers.base_optimizer:BaseOptimizer.scale_loss",
    "The weight of a local batch must be in its loss before gradients pass from one replica to another.",
    ("self", "loss"),
)
SCALE_SCALED_LOSS: Final = _hook(
    "keras.optimizers:LossScaleOptimizer.scale_loss",
    "As `Optimizer.scale_loss`, which it overrides: a part of a batch has larger gradients, which overflow earlier.",
    ("self", "loss"),
)
MEAN: Final = _hook(
    "keras.metrics:Mean.update_state",
    "Keras gives the means of a batch, such as the losses of single outputs, no weight, and local batches differ.",
    ("self", "values", "sample_weight"),
)
NEXT_SEED: Final = _hook(
    "keras.src.random.seed_generator:SeedGenerator.next",
    "All replicas draw the same random numbers: they drop the same units.",
    ("self", "ordered"),
)
GLOBAL_GENERATOR: Final = _hook(
    "keras.src.random.seed_generator:global_seed_generator",
    "Keras keeps the generator of random numbers without a seed in each thread, and each trace of a step has its own "
    "threads: the second trace would create a second variable, which `tf.function` rejects.",
    (),
)
OP_SEED: Final = Hook(
    package="tensorflow",
    name="tensorflow.python.framework.random_seed:get_seed",
    reason="All replicas draw the same random numbers by `tf.random`: a GAN trains on copies of one noise.",
    missing=_KERAS_FIT,
    parameters=("op_seed",),
)
SYNCHRONIZED_MOMENTS: Final = _hook(
    "keras.src.backend.tensorflow.nn:_compute_moments_sync",
    "A replica without examples computes a row that must not count in synchronized BatchNormalization.",
    ("x", "axes", "keepdims"),
)
ASSIGN: Final = _hook(
    "keras.src.backend.tensorflow.core:Variable._direct_assign",
    "Shows which statistics a step changes, such as BatchNormalization's: they differ between replicas.",
    ("self", "value"),
)
RESET_METRICS: Final = _hook(
    "keras.src.trainers.trainer:Trainer.reset_metrics",
    "A state that begins at another value than 0 is divided by the number of replicas.",
    ("self",),
)
METRICS: Final = _hook(
    f"{_TRAINER}:TensorFlowTrainer.get_metrics_result", "The logs of all metrics from given states.", ("self",)
)
EPOCH_LOGS: Final = _hook(
    "keras.src.trainers.trainer:Trainer._get_metrics_result_or_logs",
    "At the end of an epoch it reads the states again, of which TensorFlow has the sum only.",
    ("self", "logs"),
)
PYTHON_LOGS: Final = _hook(
    "keras.src.utils.python_utils:pythonify_logs",
    "Until 3.13, the function that `_get_metrics_result_or_logs` calls makes numbers of tensors, and no caller does.",
    ("logs",),
)
PREDICT_ON_BATCH: Final = _hook(
    f"{_TRAINER}:TensorFlowTrainer.predict_on_batch",
    "It returns the predictions of all workers one after the other, for one batch of each.",
    ("self", "x"),
)
TRAIN_STEP: Final = _hook(
    f"{_TRAINER}:TensorFlowTrainer._compute_loss",
    "With `jit_compile`, the loss and its gradients are compiled without the exchange that `train_step` contains.",
    ("self", "x", "y", "y_pred", "sample_weight", "training"),
)
FIT: Final = _hook(
    f"{_TRAINER}:TensorFlowTrainer.fit", "Callbacks of each worker, and errors before the first step, are set there."
)
EVALUATE: Final = _hook(f"{_TRAINER}:TensorFlowTrainer.evaluate", "As `fit`.")
PREDICT: Final = _hook(f"{_TRAINER}:TensorFlowTrainer.predict", "As `fit`.")
TRAIN_BATCH_END: Final = _hook(
    "keras.callbacks:CallbackList.on_train_batch_end",
    "`fit` names the last batch of a block before it runs, and the data may end within the block.",
    ("self", "batch", "logs"),
)
TEST_BATCH_END: Final = _hook(
    "keras.callbacks:CallbackList.on_test_batch_end", "As `on_train_batch_end`.", ("self", "batch", "logs")
)
SAVE: Final = _hook("keras.src.saving.saving_api:save_model", "Only the chief writes files.")
SAVE_WEIGHTS: Final = _hook("keras.src.saving.saving_api:save_weights", "Only the chief writes files.")
LOAD: Final = _hook("keras.src.saving.saving_api:load_model", "A worker loads what the chief is writing.")
LOAD_WEIGHTS: Final = _hook("keras.src.saving.saving_api:load_weights", "As `load_model`.")
LOAD_EXPORTED: Final = Hook(
    package="tensorflow", name="tensorflow.saved_model:load", reason="As `load_model`.", missing=_KERAS_FIT
)
PARSE_EXPORTED: Final = Hook(
    package="tensorflow",
    name="tensorflow.python.saved_model.loader_impl:parse_saved_model_with_debug_info",
    reason="The functions that save a table, as `StringLookup` has, name the worker that has exported it.",
    missing=_KERAS_FIT,
    parameters=("export_dir",),
)
EXPORT: Final = _hook("keras:Model.export", "Only the chief writes files.")
WRITE_OUT: Final = _hook(
    # Keras 3.14 has moved the method to a class of its own, which `ExportArchive` creates.
    "keras.export:ExportArchive.write_out"
    if keras_is_before("3.14")
    else "keras.src.export.saved_model_export_archive:SavedModelExportArchive.write_out",
    "Only the chief writes files.",
    ("self", "filepath", "options", "verbose"),
)
TRACE: Final = _hook(
    "keras.callbacks:TensorBoard()._should_trace", "A profile is of single batches, which the callback must see then."
)
STRATEGY: Final = _hook(
    "keras.optimizers:Adam()._distribution_strategy",
    "Shows whether an optimizer was made in the scope of the strategy.",
)
INITIAL_EPOCH: Final = _hook(
    "keras:Model()._initial_epoch", "The epoch at which `fit` begins, as `BackupAndRestore` sets it after a restart."
)
BUILT_VARIABLES: Final = _hook(
    "keras.optimizers:Adam()._trainable_variables",
    "An optimizer of a model's own `train_step` is built in its first step, too late for a checkpoint.",
)
OPTIONALS: Final = Hook(
    package="keras",
    name=f"{_TRAINER}:TensorFlowTrainer._autoconvert_optionals",
    reason="Keras' data adapters pass missing labels and weights as optionals.",
    missing="Keras before 3.12 leaves missing parts out of the batch, and `fit` needs no conversion",
    since="3.12",
    parameters=("self", "step_func"),
)
HOOKS: Final = (
    TRAIN_FUNCTION, TEST_FUNCTION, SYMBOLIC_BUILD, BUILD, REDUCE_LOSS, MASK, SCALE, UNSCALE, APPLY, APPLY_SCALED,
    ALL_REDUCE, SCALE_LOSS, SCALE_SCALED_LOSS, MEAN, NEXT_SEED, GLOBAL_GENERATOR, OP_SEED, ASSIGN, METRICS, OPTIONALS,
    FIT, EVALUATE, PREDICT, TRAIN_BATCH_END, TEST_BATCH_END, SAVE, SAVE_WEIGHTS, LOAD, LOAD_WEIGHTS, LOAD_EXPORTED,
    PARSE_EXPORTED, EXPORT, WRITE_OUT, TRACE, STRATEGY, TRAIN_STEP, RESET_METRICS, EPOCH_LOGS, PREDICT_ON_BATCH,
    INITIAL_EPOCH, BUILT_VARIABLES, PREDICT_FUNCTION, SYNCHRONIZED_MOMENTS, PYTHON_LOGS,
)  # fmt: skip


def wrap(hook: Hook, wrapper: Callable[[Any], Any]) -> None:
    """Replace the function of `hook` by `wrapper(function)`."""
    module, _, path = hook.name.partition(":")
    owner: Any = importlib.import_module(module)
    *classes, attribute = path.split(".")
    for name in classes:
        owner = getattr(owner, name)
    original = getattr(owner, attribute)
    replacement = wrapper(original)
    # Keeps signature and name: Keras and scripts inspect them.
    replacement = functools.wraps(original)(replacement)
    setattr(owner, attribute, replacement)
    # Public modules have bound the function on import, under the same name.
    for public in map(importlib.import_module, _PUBLIC.get(attribute, ())):
        if getattr(public, attribute, None) is original:  # a name that Keras has bound to the function on import
            setattr(public, attribute, replacement)


def build(model: Any, batch: Any, *, with_optimizer: bool = True) -> None:
    """Build `model` and all that it is compiled with, under its strategy, for batches with the shapes of `batch`."""
    unbuilt = contextlib.nullcontext() if with_optimizer else _left_unbuilt(getattr(model, "optimizer", None))
    with model.distribute_strategy.scope(), contextlib.suppress(RuntimeError, ValueError), unbuilt:
        # A model without `call`, or whose `train_step` passes something else to it than the batch, builds its parts in
        # the first step, as without a strategy. An error in `call` is raised there again.
        model._symbolic_build(data_batch=batch)


@contextlib.contextmanager
def _left_unbuilt(optimizer: Any) -> Iterator[None]:
    """Keep an optimizer from being built, which Keras does to each one that is not `built`."""
    if optimizer is None or optimizer.built:
        yield
        return
    # Keras builds every optimizer that does not say it is.
    optimizer.built = True
    try:
        yield
    finally:
        optimizer.built = False


class LossOf:
    """The loss of a compiled model, as Keras' own `train_step` computes and tracks it."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, x: Any, y: Any, weight: Any) -> tuple[Any, tf.Tensor]:
        """Return the predictions for a batch in training, and their loss, float []."""
        model = self._model
        predictions = model(x, training=True) if model._call_has_training_arg else model(x)
        loss = model._compute_loss(x=x, y=y, y_pred=predictions, sample_weight=weight, training=True)
        return predictions, loss

    def track(self, loss: tf.Tensor, x: Any) -> None:
        """Add the `loss` of a batch with the features `x` to the metric `loss`."""
        first = next(part for part in tf.nest.flatten(x) if part is not None)
        self._model._loss_tracker.update_state(loss, sample_weight=tf.shape(first)[0])


def overrides(model: Any, *methods: str) -> bool:
    """Return whether the class of `model` overrides one of these methods of Keras' trainer, such as `train_step`."""
    trainer = importlib.import_module(_TRAINER).TensorFlowTrainer
    return any(getattr(type(model), name) is not getattr(trainer, name) for name in methods)


def masked_weights(sample_weight: Any, mask: Any, dtype: Any, reduction: str) -> Any:
    """Return the weights that a loss with `sample_weight` and `mask` divides by."""
    loss = importlib.import_module(_LOSS)
    weight = None if sample_weight is None else tf.cast(sample_weight, dtype)
    return loss.apply_mask(weight, mask, dtype=dtype, reduction=reduction)


def without_optionals(model: Any, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return `step` for data in which missing parts are optionals."""
    if keras_is_before("3.12"):  # its data adapters make no optionals
        return step
    converted: Callable[[Any], Any] = model._autoconvert_optionals(step)
    return converted


def last_batch(batch: int, steps: int) -> int:
    """Return the number of the last batch of a block of `steps`, which Keras calls `batch` when the block has ended."""
    return batch + steps - 1 if keras_is_before("3.11") else batch  # by its first batch until 3.10


def metric_results(model: Any, states: Sequence[tf.Tensor]) -> list[Mapping[str, Any]]:
    """Return the logs of the metrics of `model` if their variables have the values `states`.

    First as `get_metrics_result` and Keras' own step return them, then by the name of each metric, as
    the steps of its guides do: there the compiled metrics are one with several results.
    """
    mapping = list(zip(model.metrics_variables, states, strict=True))
    # `result()` reads the given states, and not the variables of this worker.
    with keras.StatelessScope(state_mapping=mapping):
        results = [model.get_metrics_result(), {metric.name: metric.result() for metric in model.metrics}]
        return [tf.nest.map_structure(_in_scope, each) for each in results]


def _in_scope(result: Any) -> Any:
    """Return the value of a `result` that is a variable: outside of the scope it would be read again."""
    return tf.convert_to_tensor(result.value) if isinstance(result, keras.Variable) else result


def returned_logs(logs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `logs` of the last call of a step as `_get_metrics_result_or_logs` returns those of the metrics."""
    if not keras_is_before("3.14"):
        return logs
    module, _, function = PYTHON_LOGS.name.partition(":")
    numbers: Mapping[str, Any] = getattr(importlib.import_module(module), function)(logs)
    return numbers


def was_created_in(optimizer: Any, strategy: Any) -> bool:
    """Return whether `optimizer` was created in the scope of `strategy`; True if Keras does not show it."""
    return getattr(optimizer, "_distribution_strategy", strategy) is strategy


def is_validation(arguments: Mapping[str, Any]) -> bool:
    """Return whether `fit` calls `evaluate` with these arguments, and not the script."""
    return bool(arguments.get("_use_cached_eval_dataset"))


def updated_variables(optimizer: Any, variables: Any) -> list[Any]:
    """Return the variables that `apply` updates: of its argument, or the ones that the optimizer was built with."""
    return list(_updates(optimizer)._trainable_variables if variables is None else variables)


def built_variables(optimizer: Any) -> list[Any]:
    """Return the variables that `optimizer` was built with; none before that."""
    return list(getattr(_updates(optimizer), "_trainable_variables", ()))


def _updates(optimizer: Any) -> Any:
    """Return the optimizer that keeps the variables that `optimizer` was built with."""
    # A `LossScaleOptimizer` keeps them itself since 3.12.
    return getattr(optimizer, "inner_optimizer", optimizer) if keras_is_before("3.12") else optimizer


def writes_batches(tensorboard: Any, *, of_training: bool) -> bool:
    """Return whether a `TensorBoard` callback writes or profiles single batches, of training or of an evaluation."""
    return tensorboard.update_freq != "epoch" or (of_training and getattr(tensorboard, "_should_trace", False))


def begin_at(model: Any, epoch: int | None) -> None:
    """Make the next `fit` of `model` begin at `epoch`, from 0; with None at its own argument."""
    model._initial_epoch = epoch


def assign_locally(variable: Any, value: Any) -> None:
    """Assign a Keras `variable` on this replica, and not on the others, which assign the same value."""

    def assign(local: Any, new: tf.Tensor) -> None:
        local.assign(new)

    strategy = tf.distribute.get_strategy()
    strategy.extended.update(variable.value, assign, args=(tf.cast(value, variable.dtype),), group=False)


def assign_copies(variable: Any, value: Any) -> None:
    """Assign `value` to a Keras `variable` on each replica of this worker, outside of a step."""
    strategy = getattr(variable.value, "distribute_strategy", tf.distribute.get_strategy())
    for copy in strategy.experimental_local_results(variable.value):
        copy.assign(tf.cast(value, copy.dtype))


def statistics(model: Any, assigned: Iterable[Any]) -> list[Any]:
    """Return the `assigned` variables that a layer keeps statistics in: not trained, of floating point."""
    layers = {id(variable) for variable in model.non_trainable_variables}
    layer_variables = {id(variable): variable for variable in assigned if id(variable) in layers}
    return [variable for variable in layer_variables.values() if tf.as_dtype(variable.dtype).is_floating]
