"""Files of a script under several workers: `save`, `save_weights` and `export` write once, on the chief.

A worker that is not the chief and loads what it has saved waits until the chief has written it.
"""

import contextlib
import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import tensorflow as tf

from tfdist_trainer import log
from tfdist_trainer.upstream.initial_values import local_initial_values
from tfdist_trainer.upstream.strategy_worker import worker_of

WAIT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1
_CLOCK_SECONDS: Final = 5.0
"""Largest difference between the clocks of a worker and of a file server."""

_left_to_chief: dict[str, float] = {}
"""Paths that this worker has saved, and when (seconds since the epoch)."""


def by_chief(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of Keras that saves its first argument, without effect on workers that are not the chief.

    It is a model or an `ExportArchive`.
    """

    def save(model: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        strategy = _strategy_of(model)
        worker = worker_of(strategy)
        if worker is None:
            return original(model, filepath, *args, **kwargs)
        if worker.is_chief:
            # Keras creates objects whose variables it compares with the model's. In the scope of the strategy, in which
            # a script may call `fit`, a broadcast of their initial values would wait for workers that do not save.
            with local_initial_values(strategy, of_all_types=True):
                return original(model, filepath, *args, **kwargs)
        # Remembered, so that a later load on this worker waits for the chief.
        _left_to_chief[os.fspath(filepath)] = time.time()
        return None

    return save


def _strategy_of(saved: Any) -> Any:
    """Return the strategy of a model, or of the variables of an archive; None without one."""
    values = (getattr(variable, "value", variable) for variable in getattr(saved, "variables", ()))
    owners = [saved] if hasattr(saved, "distribute_strategy") else values
    return next((each.distribute_strategy for each in owners if hasattr(each, "distribute_strategy")), None)


def when_written(original: Callable[..., Any], path_of: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of Keras that loads a file, which waits for one that this worker has left to the chief.

    It raises the error of the function, or one of its kind with the reason if the file does not come.

    Args:
        original: the function.
        path_of: the path among its arguments.
    """

    def load(*args: Any, **kwargs: Any) -> Any:
        path = os.fspath(path_of(*args, **kwargs))
        saved_at = _left_to_chief.pop(path, None)
        end = time.monotonic() + WAIT_SECONDS
        while saved_at is not None and time.monotonic() < end:
            if _is_written(path, saved_at):
                # The chief's write is not atomic for all formats: an error may mean that it goes on.
                with contextlib.suppress(OSError, ValueError):  # not written to the end
                    return original(*args, **kwargs)
            time.sleep(_POLL_SECONDS)
        if saved_at is None or _is_written(path, saved_at):
            return original(*args, **kwargs)
        log.event("file-of-chief", path=path, reason=f"not written within {WAIT_SECONDS:.0f} s")
        try:
            return original(*args, **kwargs)  # an older file
        except (OSError, ValueError) as error:
            kind = FileNotFoundError if isinstance(error, OSError) else ValueError
            raise kind(_not_written(path)) from error

    return load


def on_this_worker(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return TensorFlow's function that reads a SavedModel, whose operations then name no worker.

    They keep the device's type and number: those that read a table name the worker that has exported it, and every
    other one would run them there.
    """

    def parse(*args: Any, **kwargs: Any) -> Any:
        model, *others = original(*args, **kwargs)
        for graph in (meta_graph.graph_def for meta_graph in model.meta_graphs):
            for node in itertools.chain(graph.node, *(function.node_def for function in graph.library.function)):
                if node.device:
                    # Type and number of the device stay; the worker that has exported is forgotten.
                    local = tf.DeviceSpec.from_string(node.device).replace(job=None, replica=None, task=None)
                    node.device = local.to_string()
        return model, *others

    return parse


def _is_written(path: str, saved_at: float) -> bool:
    """Return whether the chief has begun to write the file."""
    with contextlib.suppress(OSError):
        # An older file of this path may be there; the clocks of worker and file server may differ.
        return Path(path).stat().st_mtime >= saved_at - _CLOCK_SECONDS
    return False


def _not_written(path: str) -> str:
    return (
        f"{path} has not been written within {WAIT_SECONDS:.0f} s: only the chief writes what Keras saves, and this "
        "worker does not see its file. Use a path on a volume that all pods mount, such as a PersistentVolumeClaim "
        "with access mode ReadWriteMany"
    )
