"""Adds `Progress` to every `fit` of a script in a job: the status has its progress without a line of the script."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

import keras
import tensorflow as tf

from tfdist_trainer.keras.decisions import listed
from tfdist_trainer.keras.progress import Progress, ProgressHooks
from tfdist_trainer.upstream import dataset_graph, keras_fit

_KERAS_BATCH_SIZE: Final = 32
"""Of arrays, where `fit` is not given another one."""


@functools.cache
def install() -> None:
    """Replace `fit`, once in each process, if this version of Keras is one that was tested."""
    if keras_fit.is_tested():
        keras_fit.wrap(keras_fit.FIT, _fit)


def _fit(original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        given["callbacks"] = with_progress(given.get("callbacks"), examples_per_batch(**given))
        return original(**given)

    return fit


def with_progress(callbacks: Any, examples: int | None) -> Any:
    """Return the argument `callbacks` of `fit` with `Progress`, unless the script has its own there.

    Args:
        callbacks: None, a callback, several, or a `CallbackList`, which gets `Progress` for good.
        examples: those of a batch; None if unknown.
    """
    container = callbacks if isinstance(callbacks, keras.callbacks.CallbackList) else None
    given = listed(callbacks)
    own = next((each for each in given if isinstance(each, ProgressHooks)), None)
    progress: Any = own or Progress()
    progress.examples_per_batch = examples
    if own is not None:
        return callbacks
    if container is None:
        return [*given, progress]
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
