"""Adds `Progress` to every `fit` of a script in a job: the status has its progress without a line of the script."""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, Final

import keras
import tensorflow as tf

from tfdist_trainer.keras.decisions import callback_list
from tfdist_trainer.keras.progress import Progress, ProgressHooks
from tfdist_trainer.upstream import dataset_graph, keras_fit

_KERAS_BATCH_SIZE: Final = 32
"""Batch size of arrays, if the script passes none to `fit`."""


@functools.cache
def install() -> None:
    """Replace `fit`, once in each process, for a job whose `fit` the trainer runs (`keras_import.prepare`)."""
    keras_fit.wrap(keras_fit.FIT, _fit)


def _fit(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(self, *args, **kwargs).arguments
        del bound["self"]
        bound["callbacks"] = with_progress(
            bound.get("callbacks"), examples_per_batch(**bound), validation_examples(**bound)
        )
        return original(self, **bound)

    return fit


def with_progress(callbacks: Any, examples: int | None, validated: int | None = None) -> Any:
    """Return the argument `callbacks` of `fit` with `Progress`, unless the script passes one.

    Args:
        callbacks: None, a callback, several, or a `CallbackList`, which gets `Progress` for good.
        examples: in a batch; None if unknown.
        validated: examples of the validation data; None if unknown.
    """
    # A `CallbackList` has parameters and model already: what is added gets them here.
    container = callbacks if isinstance(callbacks, keras.callbacks.CallbackList) else None
    configured = callback_list(callbacks)
    existing = next((each for each in configured if isinstance(each, ProgressHooks)), None)
    progress: Any = existing or Progress()
    progress.examples_per_batch, progress.validation_examples = examples, validated
    # The script's own `Progress` reports; two would count the steps twice.
    if existing is not None:
        return callbacks
    if container is None:
        return [*configured, progress]
    container.callbacks.append(progress)
    progress.set_params(container.params)
    progress.set_model(container.model)
    return container


def examples_per_batch(x: Any = None, batch_size: int | None = None, **_others: Any) -> int | None:
    """Return the examples in a batch of all workers, from arguments of `fit`; None if they do not show it."""
    if isinstance(x, tf.data.Dataset):
        return dataset_graph.batch_size(x)
    if x is not None and all(hasattr(each, "shape") for each in tf.nest.flatten(x)):
        return batch_size or _KERAS_BATCH_SIZE
    return None


def validation_examples(
    x: Any = None,
    batch_size: int | None = None,
    validation_data: Any = None,
    validation_split: float = 0.0,
    validation_steps: int | None = None,
    validation_batch_size: int | None = None,
    **_others: Any,
) -> int | None:
    """Return the examples that `fit` validates on, from its arguments; None if they do not show it."""
    if isinstance(validation_data, tf.data.Dataset):
        return dataset_graph.count(validation_data, validation_steps)
    examples = _validation_rows(x, validation_data, validation_split)
    if examples is None or validation_steps is None:
        return examples
    return min(examples, validation_steps * (validation_batch_size or batch_size or _KERAS_BATCH_SIZE))


def validation_batches(
    x: Any = None,
    batch_size: int | None = None,
    validation_data: Any = None,
    validation_split: float = 0.0,
    validation_steps: int | None = None,
    validation_batch_size: int | None = None,
    **_others: Any,
) -> int | None:
    """Return the batches that `fit` validates on, from its arguments; None if they do not show it."""
    if isinstance(validation_data, tf.data.Dataset):
        cardinality = int(validation_data.cardinality())
        batches = cardinality if cardinality >= 0 else None
    elif isinstance(validation_data, keras.utils.PyDataset):
        batches = validation_data.num_batches
    else:
        rows = _validation_rows(x, validation_data, validation_split)
        size = validation_batch_size or batch_size or _KERAS_BATCH_SIZE
        batches = None if rows is None else math.ceil(rows / size)
    return min((each for each in (batches, validation_steps) if each is not None), default=None)


def _validation_rows(x: Any, validation_data: Any, validation_split: float) -> int | None:
    """Return the rows of arrays that `fit` validates on; None of other data, or if they do not show it."""
    if validation_data is not None:
        return _rows(validation_data[0]) if isinstance(validation_data, list | tuple) else None
    rows = _rows(x) if validation_split else None
    return None if rows is None else rows - math.floor(rows * (1.0 - validation_split))  # as Keras splits them


def _rows(x: Any) -> int | None:
    """Return the length of arrays; None of anything else."""
    arrays = tf.nest.flatten(x)
    has_shapes = bool(arrays) and all(getattr(each, "shape", None) for each in arrays)
    return int(arrays[0].shape[0]) if has_shapes else None
