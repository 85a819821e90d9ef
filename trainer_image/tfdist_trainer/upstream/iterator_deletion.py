"""Deletes iterators of data sets in the background: TensorFlow may wait for up to a minute for their threads.

The thread that tunes a pipeline (`Model::OptimizeLoop` in tensorflow/core/framework/model.cc) sleeps for up to twice
the age of the iterator, at most 60 s. Its destructor cancels it and waits, but `CancellationManager::StartCancel` wakes
the thread before it counts as cancelled, so that the thread may go to sleep again. `fit` makes an iterator for each
epoch and each validation: in half of the cases it waited as long as the epoch had taken, see ADR 41.
"""

import importlib
import sys
import threading
from typing import Any, Final

import tensorflow as tf

from tfdist_trainer.upstream.hook import Hook, fall_back

_MODULE: Final = "tensorflow.python.data.ops.iterator_ops"
_RESOURCE: Final = "_iterator_resource"

ITERATOR: Final = Hook(
    package="tensorflow",
    name=f"{_MODULE}:OwnedIterator._create_iterator",
    reason="An iterator is deleted with its last reference, in the thread that drops it; the reference to the iterator "
    f"of the runtime is its private attribute `{_RESOURCE}`.",
    missing="the end of an epoch may wait for the threads of its iterator",
    parameters=("self", "dataset"),
)
HOOKS: Final = (ITERATOR,)


def install() -> None:
    """Delete each iterator of this process in a separate thread from now on."""
    iterator: Any = getattr(importlib.import_module(_MODULE), "OwnedIterator", None)
    if not hasattr(iterator, ITERATOR.attribute):
        fall_back(ITERATOR)
        return
    iterator.__del__ = _delete


def _delete(self: Any) -> None:
    """Pass the iterator of the runtime, and the data set whose functions it may call, to a thread."""
    # No thread starts any more; the process frees everything by its end.
    if sys.is_finalizing():
        return
    resource = self.__dict__.pop(_RESOURCE, None)
    if not isinstance(resource, tf.__internal__.EagerTensor):  # it is part of a graph
        return
    # The iterator last: its threads may still call functions of the data set.
    references = [self.__dict__.pop("_dataset", None), self.__dict__.pop("_components", None), resource]
    del resource
    # A daemon: the end of the process must not wait for up to a minute.
    threading.Thread(target=_drop, args=(references,), name="delete iterator", daemon=True).start()


def _drop(references: list[Any]) -> None:
    while references:
        references.pop()
