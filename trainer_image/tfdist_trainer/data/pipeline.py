"""Turns one pipeline's examples into batches that every member can take the same number of.

A collective hangs when one member stops before the others. So a pipeline never ends: after its own examples
it gives batches whose examples count for nothing, and how many steps an epoch has is agreed from the counts
of all pipelines. Every example is *present* in exactly one batch of an epoch.

All epochs are one stream, with one iterator: making another for each epoch would leave the processor without
input at every border, and to destroy an iterator of a distributed dataset takes seconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from tfdist_trainer.autograph import untranslated
from tfdist_trainer.data.batches import Batches, Order


class Batch(NamedTuple):
    """One replica's part of a step.

    `features` and `labels` have a first axis of the batch's size; either may be a dictionary or tuple of such tensors.
    """

    features: Any
    labels: Any
    weights: tf.Tensor
    """float32 [batch]; 0 where there is no example."""
    present: tf.Tensor
    """bool [batch]; whether the example counts. A weight of zero does not make an example absent."""


@dataclass(frozen=True, slots=True)
class Examples:
    """One pipeline's examples of a split, in elements that `decode` understands in batches."""

    count: int
    batches: Batches
    """The elements, batched and padded."""
    decode: Callable[..., tuple[Any, ...]]
    """The tensors of a batch of elements -> features [batch, ...], labels [batch, ...], and weights [batch] where
    examples have a weight of their own."""
    skipped: int = 0
    """Bad records that were left out."""
    parallel: int | None = None
    """Batches that are decoded at the same time; None decodes them where they are taken, for what is done at once."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Which batches of a stream are wanted: `epochs` of `batches` each.

    Without the first `skip` of the first epoch, which were used before a restart.
    """

    batches: int
    epochs: range
    skip: int = 0


def steps_needed(counts: Sequence[int], batch_size: int, replicas_per_pipeline: int) -> int:
    """Return the steps after which every pipeline has given all its examples.

    `counts` are the examples of each pipeline; a step takes `batch_size` for each of its replicas.
    """
    per_step = batch_size * replicas_per_pipeline
    return max((-(-count // per_step) for count in counts), default=0)


def stream(examples: Examples, stretch: Stretch, *, batch_size: int, seed: int | None) -> tf.data.Dataset:
    """Return an endless dataset of `Batch`es of exactly `batch_size` examples.

    Each epoch of `stretch` has its own order, of `seed` and the epoch's number; None gives all the order of the
    files. What an epoch needs beyond the pipeline's own examples are batches that do not count. Those repeat
    its examples rather than zeros, so that batch normalization sees real inputs.
    """

    def prepare(order: Order) -> tf.data.Dataset:
        batches = examples.batches(order)
        if examples.parallel is None:
            return batches.map(decode)
        return batches.map(decode, num_parallel_calls=examples.parallel, deterministic=True)

    def full(tensor: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tensor, [batch_size, *tensor.shape[1:]])

    @untranslated
    def decode(elements: Any, present: tf.Tensor) -> Batch:
        parts = elements if isinstance(elements, tuple) else (elements,)
        features, labels, *own = tf.nest.map_structure(full, examples.decode(*parts))
        weights = tf.cast(present, tf.float32)
        return Batch(features, labels, weights * tf.cast(own[0], tf.float32) if own else weights, present)

    @untranslated
    def epoch(number: tf.Tensor) -> tf.data.Dataset:
        skip = tf.where(number == stretch.epochs.start, tf.constant(stretch.skip, tf.int64), 0)
        order = Order(batch_size, None if seed is None else seed * 1_000_003 + number, skip)
        batches = prepare(order)
        if steps_needed([examples.count], batch_size, 1) < stretch.batches:
            batches = batches.concatenate(prepare(Order(batch_size)).map(_discount).repeat())
        return batches.concatenate(_blank(batches.element_spec)).take(stretch.batches - skip)

    numbers = tf.data.Dataset.range(stretch.epochs.start, stretch.epochs.stop)
    epochs = numbers.flat_map(epoch)
    return epochs.concatenate(_blank(epochs.element_spec)).prefetch(2)


@untranslated
def _discount(batch: Batch) -> Batch:
    return batch._replace(weights=tf.zeros_like(batch.weights), present=tf.zeros_like(batch.present))


def _blank(spec: Batch) -> tf.data.Dataset:
    """Return an endless dataset of batches of zeros, that do not count."""
    zeros: Batch = tf.nest.map_structure(lambda part: tf.zeros(part.shape, part.dtype), spec)
    return tf.data.Dataset.from_tensors(zeros).repeat()
