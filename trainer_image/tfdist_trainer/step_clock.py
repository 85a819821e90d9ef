"""Time measured inside the graph of a step, so that steps of one execution need no call from Python in between."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf


def only_last_steps() -> bool:
    """Return whether exchanges are measured only in the last step of an execution: on GPUs.

    There each measurement stops the host until the GPU has finished, as the end of an execution does anyway.
    """
    return bool(tf.config.list_logical_devices("GPU"))


def is_due(last: tf.Tensor) -> tf.Tensor | bool:
    """Return whether the exchange is measured in a step, of which `last`, bool [], is whether it is the last one."""
    return last if only_last_steps() else True


def total_exchange_seconds(seconds: tf.Tensor, steps: tf.Tensor) -> tf.Tensor:
    """Return the seconds in the exchanges of `steps` steps, from the sum of the measured ones, float64 []."""
    return seconds * tf.cast(steps, seconds.dtype) if only_last_steps() else seconds


def time_after(tensors: Iterable[tf.Tensor], *, due: tf.Tensor | bool) -> tf.Tensor:
    """Return the time, seconds as float64 [], at which all `tensors`, of rank 1 or more, are computed; 0 unless `due`.

    The operation of a GPU ends before its result is computed: one element of each tensor is copied to the host, which
    waits for it. Nothing is copied unless it is due.
    """
    elements = [tensor[:1] for tensor in tensors]

    def now() -> tf.Tensor:
        with tf.control_dependencies([tf.identity(element) for element in elements]):
            return tf.timestamp()

    with tf.device("CPU:0"):
        return now() if due is True else tf.cond(due, now, lambda: tf.constant(0.0, tf.float64))


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
