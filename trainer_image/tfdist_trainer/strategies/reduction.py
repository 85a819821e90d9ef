"""Adds and averages over replicas with one collective for each type of number, whatever the number of tensors.

Without this each tensor is a collective of its own, and on small models their latency is the step's time
(`tensorflow/python/distribute/cross_device_ops.py` packs tensors for NCCL only).
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from tfdist_trainer.step_clock import time_after

Packed = Mapping[tf.DType, tf.Tensor]
"""By type of number, all elements of the tensors of that type in turn, [n]."""


def all_reduce_sum(tensors: Sequence[tf.Tensor], replicas: int) -> list[tf.Tensor]:
    """Return the sums over all `replicas` of `tensors`; a collective."""
    return list(tensors) if replicas == 1 else _unpacked(_reduced(_packed(tensors)), tensors)


def all_reduce_mean(parts: Sequence[tf.Tensor], replicas: int) -> list[tf.Tensor]:
    """Return gradients of the mean over all `replicas`, and the sums added up; a collective.

    Args:
        parts: gradients of a replica's sum, then a vector of sums and the weight, both float32. Of an only replica the
            gradients are of the mean already.
        replicas: how many there are.
    """
    return timed_all_reduce_mean(parts, replicas, due=False)[0]


def timed_all_reduce_mean(
    parts: Sequence[tf.Tensor], replicas: int, *, due: tf.Tensor | bool
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Return what `all_reduce_mean` returns, and the seconds from when `parts` are computed to their sums, float64 [].

    They are 0 for one replica, and unless `due`.
    """
    no_wait = tf.constant(0.0, tf.float64)
    if replicas == 1:
        return list(parts[:-1]), no_wait
    flat = _packed(parts)
    if due is False:
        return _means(_reduced(flat), parts), no_wait
    started = time_after(flat.values(), due=due)
    with tf.control_dependencies([started]):
        flat = {dtype: tf.identity(vector) for dtype, vector in flat.items()}
    added = _reduced(flat)
    return _means(added, parts), time_after(added.values(), due=due) - started


def _means(added: Packed, parts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return the means over all replicas of the gradients in `parts`, and the sums, from their sums `added`."""
    *_, sums, _ = parts
    # They come last, behind all gradients of their type.
    tail = added[tf.float32][-sums.shape.num_elements() - 1 :]
    weight = tail[-1]
    # A step without any example, which only a restart with another layout can make, must change nothing
    # and divide by something.
    means = {
        dtype: flat * tf.math.divide_no_nan(tf.ones([], dtype), tf.cast(weight, dtype)) for dtype, flat in added.items()
    }
    return [*_unpacked(means, parts)[:-2], tail[:-1]]


def _packed(tensors: Sequence[tf.Tensor]) -> Packed:
    return {
        dtype: tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors if tensor.dtype == dtype], axis=0)
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors)
    }


def _reduced(packed: Packed) -> Packed:
    context = tf.distribute.get_replica_context()
    return {dtype: context.all_reduce(tf.distribute.ReduceOp.SUM, flat) for dtype, flat in packed.items()}


def _unpacked(packed: Packed, like: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return the elements of `packed` in the shapes of `like`."""
    parts = {}
    for dtype, flat in packed.items():
        sizes = [tensor.shape.num_elements() for tensor in like if tensor.dtype == dtype]
        parts[dtype] = iter(tf.split(flat, sizes))
    return [tf.reshape(next(parts[tensor.dtype]), tensor.shape) for tensor in like]
