"""Batches the examples of one pipeline, before they are decoded.

Padding comes first, so decoding sees full batches of a static shape, and nothing is copied to fill the last one.
Indexed examples are shuffled as one permutation and cut into rows: without work per example, which for small
examples would dominate the time of the pipeline.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from tfdist_trainer.autograph import do_not_convert


@dataclass(frozen=True, slots=True)
class ReplicaShare:
    """The replicas of one member: `first` to `first` + `count` - 1 of `replicas`."""

    first: int = 0
    count: int = 1
    replicas: int = 1


ONE_REPLICA: Final = ReplicaShare()


@dataclass(frozen=True, slots=True)
class BatchOrder:
    """The batch size, the shuffle seed and the first batch of an epoch."""

    size: int
    """Batch size."""
    seed: tf.Tensor | None = None
    """int64 []; None keeps the order of the files."""
    skip: tf.Tensor | int = 0
    """Batches skipped at the start of the epoch, int64 []."""
    start: tf.Tensor | int = 0
    """Examples of all replicas skipped at the start of the epoch, int64 []; only for examples read by index."""
    share: ReplicaShare = ONE_REPLICA
    """The replicas to return batches for; only for examples that are read by index."""


Batches = Callable[[BatchOrder], tf.data.Dataset]
"""Returns (elements, valid_mask): the tensors of `size` elements, and bool [size], false for padding. The padding
repeats elements of the last batch, so that batch normalization sees real inputs."""


def indexed_batches(count: int, order: BatchOrder) -> tf.data.Dataset:
    """Return `Batches` of the indices of `count` examples, int64 [size]."""
    permutation = _permutation(count, order.seed)
    padded_count = -(-count // order.size) * order.size
    position = tf.range(padded_count, dtype=tf.int64)
    last = tf.constant(max(padded_count - order.size, 0), tf.int64)
    # Padding: the examples of the last batch again, in turn.
    source = tf.where(
        position < count, position, last + (position - last) % max(1, count - int(max(padded_count - order.size, 0)))
    )
    rows = tf.reshape(tf.gather(permutation, source), [-1, order.size])
    valid_mask = tf.reshape(position < count, [-1, order.size])
    return tf.data.Dataset.from_tensor_slices((rows[order.skip :], valid_mask[order.skip :]))


def shared_batches(count: int, order: BatchOrder) -> tf.data.Dataset:
    """Return `Batches` of the indices of a member's part of each global batch, int64 [size].

    All replicas share one permutation of `count` examples. A global batch is the next `size` times `replicas` of them,
    and each replica uses its part of it, so that only the last step of an epoch has padding.
    """
    share = order.share
    start = tf.cast(order.start, tf.int64)
    per_step = order.size * share.replicas
    steps = -(-(count - start) // per_step)
    step_starts = start + tf.range(steps)[:, tf.newaxis] * per_step
    positions = step_starts + tf.range(
        share.first * order.size, (share.first + share.count) * order.size, dtype=tf.int64
    )
    positions = tf.reshape(positions, [-1, order.size])
    # Padding: the first examples after `start` again.
    rows = tf.gather(_permutation(count, order.seed), start + (positions - start) % (count - start))
    return tf.data.Dataset.from_tensor_slices((rows, positions < count))


def _permutation(count: int, seed: tf.Tensor | None) -> tf.Tensor:
    """Return the indices of `count` examples in the order of `seed`, int64 [count]."""
    numbers = tf.range(count, dtype=tf.int64)
    if seed is None:
        return numbers
    # A pure function of seed and epoch: a restart, and any gang, has the same order (ADR 40).
    return tf.random.experimental.stateless_shuffle(numbers, seed=[seed, 0])


def streamed_batches(elements: tf.data.Dataset, order: BatchOrder) -> tf.data.Dataset:
    """Return `Batches` of `elements`, which are already in the order to use."""
    batches = elements.skip(order.skip * order.size).batch(order.size)
    return batches.map(do_not_convert(lambda *parts: _pad(parts[0] if len(parts) == 1 else parts, order.size)))


def _pad(parts: Any, size: int) -> tuple[Any, tf.Tensor]:
    count = tf.shape(tf.nest.flatten(parts)[0])[0]

    def fill(tensor: tf.Tensor) -> tf.Tensor:
        filled = tf.cond(count == size, lambda: tensor, lambda: tf.gather(tensor, tf.range(size) % count))
        return tf.ensure_shape(filled, [size, *tensor.shape[1:]])

    return tf.nest.map_structure(fill, parts), tf.range(size) < count
