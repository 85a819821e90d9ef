"""The batches of one input pipeline: the same number of steps for every member.

A collective hangs if one member stops before the others. So a pipeline never ends: after its examples it yields
batches with weight zero, and the number of steps of an epoch follows from the counts of all pipelines. Every example
is *valid* in exactly one batch of an epoch.

All epochs are one dataset with one iterator: a new iterator for each epoch would stall the CPU between epochs,
and destroying an iterator of a distributed dataset takes seconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from tfdist_trainer.autograph import do_not_convert
from tfdist_trainer.data.batches import ONE_REPLICA, Batches, BatchOrder, ReplicaShare


class Batch(NamedTuple):
    """The batch of one replica.

    The first axis of `features` and `labels` is the batch; either may be a dictionary or tuple of such tensors.
    """

    features: Any
    labels: Any
    weights: tf.Tensor
    """float32 [batch]; 0 for padding."""
    valid_mask: tf.Tensor
    """bool [batch]; false for padding. An example of weight zero is valid, and is counted."""


@dataclass(frozen=True, slots=True)
class ExampleSource:
    """The examples of a split in one pipeline, as elements that `decode` decodes in batches."""

    count: int
    batches: Batches
    """The elements, batched and padded."""
    decode: Callable[..., tuple[Any, ...]]
    """A batch of elements -> features [batch, ...], labels [batch, ...], and optionally example weights [batch]."""
    skipped: int = 0
    """Number of bad records that were skipped."""
    first_skipped: str | None = None
    """The first of them, with its reason."""
    parallel: int | None = None
    """Number of batches decoded in parallel, or `tf.data.AUTOTUNE` for up to as many as there are cores; None decodes
    sequentially, for decoding that costs next to nothing."""
    by_index: bool = False
    """Whether `count` and `batches` are of one order of the examples of all members, which share each global batch."""


@dataclass(frozen=True, slots=True)
class EpochRange:
    """The range of epochs of a stream, with `batches` batches each.

    The first `skip` batches of the first epoch are skipped: they were used before a restart. For examples that are
    read by index it is instead the first `consumed` examples of all members, and `share` has the member's replicas.
    """

    batches: int
    epochs: range
    skip: int = 0
    consumed: int = 0
    share: ReplicaShare = ONE_REPLICA


def steps_needed(counts: Sequence[int], batch_size: int, replicas_per_pipeline: int) -> int:
    """Return the number of steps after which every pipeline has used all its examples.

    `counts` are the numbers of examples of the pipelines; a step uses `batch_size` examples for each replica.
    """
    per_step = batch_size * replicas_per_pipeline
    return max((-(-count // per_step) for count in counts), default=0)


def stream(examples: ExampleSource, epoch_range: EpochRange, *, batch_size: int, seed: int | None) -> tf.data.Dataset:
    """Return an endless dataset of `Batch`es of exactly `batch_size` examples.

    Each epoch of `epoch_range` has its own order, from `seed` and the number of the epoch; with None all have the order
    of the files. An epoch that is longer than the examples of the pipeline is padded with batches of weight zero. These
    repeat examples instead of zeros, so that batch normalization sees real inputs.
    """

    def prepare(order: BatchOrder) -> tf.data.Dataset:
        batches = examples.batches(order)
        if examples.parallel is None:
            return batches.map(decode)
        return batches.map(decode, num_parallel_calls=examples.parallel, deterministic=True)

    def with_batch_size(tensor: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tensor, [batch_size, *tensor.shape[1:]])

    @do_not_convert
    def decode(elements: Any, valid_mask: tf.Tensor) -> Batch:
        parts = elements if isinstance(elements, tuple) else (elements,)
        features, labels, *extra = tf.nest.map_structure(with_batch_size, examples.decode(*parts))
        weights = tf.cast(valid_mask, tf.float32)
        return Batch(features, labels, weights * tf.cast(extra[0], tf.float32) if extra else weights, valid_mask)

    @do_not_convert
    def epoch(number: tf.Tensor) -> tf.data.Dataset:
        is_resumed = number == epoch_range.epochs.start
        skip = tf.where(is_resumed, tf.constant(epoch_range.skip, tf.int64), 0)
        # Another order for each epoch, and the same one after a restart.
        epoch_seed = None if seed is None else seed * 1_000_003 + number
        if examples.by_index:
            start = tf.where(is_resumed, tf.constant(epoch_range.consumed, tf.int64), 0)
            return prepare(BatchOrder(batch_size, epoch_seed, start=start, share=epoch_range.share))
        order = BatchOrder(batch_size, epoch_seed, skip)
        batches = prepare(order)
        if steps_needed([examples.count], batch_size, 1) < epoch_range.batches:
            # Others have more steps: real examples with the weight 0, so that batch normalization sees no zeros.
            batches = batches.concatenate(prepare(BatchOrder(batch_size)).map(_zero_weight).repeat())
        return batches.concatenate(_empty_batches(batches.element_spec)).take(epoch_range.batches - skip)

    numbers = tf.data.Dataset.range(epoch_range.epochs.start, epoch_range.epochs.stop)
    # All epochs are one data set: an iterator for each would stall training between them (ADR 4).
    epochs = numbers.flat_map(epoch)
    return epochs.concatenate(_empty_batches(epochs.element_spec)).prefetch(2)


@do_not_convert
def _zero_weight(batch: Batch) -> Batch:
    return batch._replace(weights=tf.zeros_like(batch.weights), valid_mask=tf.zeros_like(batch.valid_mask))


def _empty_batches(spec: Batch) -> tf.data.Dataset:
    """Return an endless dataset of batches of zeros with weight zero."""
    zeros: Batch = tf.nest.map_structure(lambda part: tf.zeros(part.shape, part.dtype), spec)
    return tf.data.Dataset.from_tensors(zeros).repeat()
