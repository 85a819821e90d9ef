"""Time measured inside the graph of a step, so that steps of one execution need no call from Python in between."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf


def time_after(tensors: Iterable[tf.Tensor]) -> tf.Tensor:
    """Return the time, seconds as float64 [], at which all `tensors`, of rank 1 or more, are computed.

    The operation of a GPU ends before its result is computed: one element of each tensor is copied to the host, which
    waits for it.
    """
    first = [tensor[:1] for tensor in tensors]
    with tf.device("CPU:0"):
        arrived = [tf.identity(element) for element in first]
        with tf.control_dependencies(arrived):
            return tf.timestamp()


def has_clock() -> bool:
    """Return whether TensorFlow has a clock: with deterministic operations it has none."""
    with tf.init_scope():
        try:
            tf.timestamp()
        except tf.errors.FailedPreconditionError:
            return False
    return True


def time_when(value: Any) -> tf.Tensor:
    """Return the time, seconds as float64 [], at which the operations of `value`, tensors or composites, have ended."""
    with tf.control_dependencies(tf.nest.flatten(value, expand_composites=True)):
        return tf.timestamp()


def timed_next(iterator: Any, after: tf.Tensor) -> tuple[Any, tf.Tensor]:
    """Return the next batch and the seconds waited for it, float64 [], counted from when `after` is computed."""
    with tf.control_dependencies([after]):
        started = tf.timestamp()
    with tf.control_dependencies([started]):
        batch = iterator.get_next()
    return batch, time_when(batch) - started
