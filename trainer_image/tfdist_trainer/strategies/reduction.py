"""Adds and averages over replicas with one collective for each pack of tensors, whatever their number.

Without packs each tensor is a separate collective, and their latency dominates the step time of small models
(`tensorflow/python/distribute/cross_device_ops.py` packs tensors for NCCL only). A pack begins with the last tensors:
backpropagation computes the gradients of the last layers first, and they are exchanged while it continues (Li et al.,
PyTorch Distributed, VLDB 2020, section 3.2.3).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import tensorflow as tf

from tfdist_trainer.step_clock import time_after

PACK_BYTES = 32 << 20
"""Size of a pack of several tensors: long enough that its latency is a small part of its time."""


@dataclass(frozen=True, slots=True)
class Pack:
    """Tensors of one dtype, concatenated."""

    places: tuple[int, ...]
    """Indices of the tensors, the last one first."""
    flat: tf.Tensor
    """All their elements in turn, [n]."""


def all_reduce_sum(tensors: Sequence[tf.Tensor], replicas: int) -> list[tf.Tensor]:
    """Return the sums over all `replicas` of `tensors`; a collective."""
    return list(tensors) if replicas == 1 else _unpack(_all_reduce(_pack(tensors)), tensors)


def timed_all_reduce_mean(
    parts: Sequence[tf.Tensor], replicas: int, *, due: tf.Tensor | bool
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Return gradients of the mean over all `replicas` with the sums added up, and the seconds that this took.

    A collective. The seconds, float64 [], run from when `parts` are computed to their sums; they are 0 for one replica,
    and unless `due`.

    Args:
        parts: gradients of a replica's sum, then a vector of sums and the weight, both float32. With one replica the
            gradients are of the mean already.
        replicas: number of replicas.
        due: whether to measure the seconds.
    """
    no_wait = tf.constant(0.0, tf.float64)
    if replicas == 1:
        return list(parts[:-1]), no_wait
    packs = _pack(parts)
    if due is False:
        return _means(_all_reduce(packs), parts), no_wait
    computed = time_after([pack.flat for pack in packs], due=due)
    # The clock must run before the exchange of what is computed last, but earlier packs must not wait for it.
    last = {pack.flat.dtype: number for number, pack in enumerate(packs)}.values()
    with tf.control_dependencies([computed]):
        packs = [replace(pack, flat=tf.identity(pack.flat)) if n in last else pack for n, pack in enumerate(packs)]
    reduced = _all_reduce(packs)
    return _means(reduced, parts), time_after([pack.flat for pack in reduced], due=due) - computed


def _means(reduced: Sequence[Pack], parts: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return the means over all replicas of the gradients in `parts`, and the sums, from their sums `reduced`."""
    *_, sums, weight = _unpack(reduced, parts)
    # A step without any example, which only a restart with another layout can cause, must change nothing
    # and not divide by zero.
    means = [
        replace(pack, flat=pack.flat * tf.math.divide_no_nan(tf.ones([], dtype), tf.cast(weight, dtype)))
        for pack, dtype in ((pack, pack.flat.dtype) for pack in reduced)
    ]
    return [*_unpack(means, parts)[:-2], sums]


def _pack(tensors: Sequence[tf.Tensor]) -> list[Pack]:
    """Return `tensors` in packs, the last tensors first."""
    groups: list[list[int]] = []
    of_type: dict[tf.DType, tuple[list[int], int]] = {}
    # Backpropagation computes the gradients of the last layers first (ADR 49).
    for index in reversed(range(len(tensors))):
        tensor = tensors[index]
        size = tensor.shape.num_elements() * tensor.dtype.size
        group, filled = of_type.get(tensor.dtype, ([], 0))
        # A tensor that is larger than a pack is one by itself.
        if not group or filled + size > PACK_BYTES:
            group, filled = [], 0
            groups.append(group)
        group.append(index)
        of_type[tensor.dtype] = group, filled + size
    return [
        Pack(tuple(group), tf.concat([tf.reshape(tensors[index], [-1]) for index in group], axis=0)) for group in groups
    ]


def _all_reduce(packs: Sequence[Pack]) -> list[Pack]:
    context = tf.distribute.get_replica_context()
    return [replace(pack, flat=context.all_reduce(tf.distribute.ReduceOp.SUM, pack.flat)) for pack in packs]


def _unpack(packs: Sequence[Pack], like: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return the elements of `packs` in the shapes of `like`."""
    tensors: dict[int, tf.Tensor] = {}
    for pack in packs:
        parts = tf.split(pack.flat, [like[index].shape.num_elements() for index in pack.places])
        tensors |= {index: tf.reshape(part, like[index].shape) for index, part in zip(pack.places, parts, strict=True)}
    return [tensors[index] for index in range(len(like))]
