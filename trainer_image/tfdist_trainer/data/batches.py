"""Cuts one pipeline's examples into batches of one size, before they are decoded.

Padding comes first: whatever decodes sees full batches of a shape known in advance, and copies nothing to fill up
the last. Examples that can be had by number are shuffled as one permutation and cut into rows: nothing is done for
an example alone, which for small ones costs more than the rest of their way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist_trainer.autograph import untranslated


@dataclass(frozen=True, slots=True)
class Order:
    """Which batches of an epoch are wanted, in which order of the examples."""

    size: int
    """Examples in a batch."""
    seed: tf.Tensor | None = None
    """int64 []; None is the order of the files."""
    skip: tf.Tensor | int = 0
    """Batches of the epoch that are left out at its start, int64 []."""


Batches = Callable[[Order], tf.data.Dataset]
"""Gives (element, present): the tensors of `size` elements, and bool [size], which is false behind the last example.
There the elements of the last batch are repeated, so that batch normalization sees real inputs."""


def by_number(count: int, order: Order) -> tf.data.Dataset:
    """Return `Batches` of the numbers of `count` examples, int64 [size]."""
    numbers = tf.range(count, dtype=tf.int64)
    if order.seed is not None:
        numbers = tf.random.experimental.stateless_shuffle(numbers, seed=[order.seed, 0])
    whole = -(-count // order.size) * order.size
    place = tf.range(whole, dtype=tf.int64)
    last = tf.constant(max(whole - order.size, 0), tf.int64)
    # Behind the last example: those of the last batch again, in turn.
    source = tf.where(place < count, place, last + (place - last) % max(1, count - int(max(whole - order.size, 0))))
    rows = tf.reshape(tf.gather(numbers, source), [-1, order.size])
    present = tf.reshape(place < count, [-1, order.size])
    return tf.data.Dataset.from_tensor_slices((rows[order.skip :], present[order.skip :]))


def one_by_one(elements: tf.data.Dataset, order: Order) -> tf.data.Dataset:
    """Return `Batches` of `elements`, which are in the wanted order."""
    batches = elements.skip(order.skip * order.size).batch(order.size)
    return batches.map(untranslated(lambda *parts: _pad(parts[0] if len(parts) == 1 else parts, order.size)))


def _pad(parts: Any, size: int) -> tuple[Any, tf.Tensor]:
    given = tf.shape(tf.nest.flatten(parts)[0])[0]

    def fill(tensor: tf.Tensor) -> tf.Tensor:
        filled = tf.cond(given == size, lambda: tensor, lambda: tf.gather(tensor, tf.range(size) % given))
        return tf.ensure_shape(filled, [size, *tensor.shape[1:]])

    return tf.nest.map_structure(fill, parts), tf.range(size) < given
