"""The examples of each worker of an asynchronous gang, in full batches without an end.

A worker repeats its part at its own pace. A batch has no padding: the end of a pass and the start of the next share
one. So every step has the same number of examples, whichever worker takes it, and the chief knows the number of all
steps that it schedules.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import tensorflow as tf

from tfdist_trainer import log
from tfdist_trainer.autograph import do_not_convert
from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.data.pipeline import Batch, EpochRange, ExampleSource, steps_needed, stream
from tfdist_trainer.errors import DataMissingError
from tfdist_trainer.programs.base import Program
from tfdist_trainer.programs.from_files import FromFiles

UNEVEN: Final = 1.1
"""Ratio of the largest part to the mean above which records are assigned instead of whole files.

Workers take equally many steps: the examples of a part of half the size would be used twice as often.
"""

LAST_EPOCH: Final = 2**31 - 1

FIELD: Final = "training.config.data.train"


def worker_examples(program: Program, workers: int) -> list[ExampleSource]:
    """Return the training examples of each worker, even up to one record if the files are not partitioned by worker.

    Raises:
        DataMissingError: there are examples, but fewer than workers.
    """
    shards = [Shard(index, workers) for index in range(workers)]
    sources = [program.examples(Split.TRAIN, shard) for shard in shards]
    counts = [source.count for source in sources]
    if max(counts) * workers > UNEVEN * sum(counts):
        if isinstance(program, FromFiles) and program.shard_by_record(Split.TRAIN, shards[0]):  # and all others
            sources = [program.examples(Split.TRAIN, shard) for shard in shards]
            message = "whole files are uneven, so each worker reads all files and uses a part of their records"
            remedy = "write more files, or files with equal numbers of records"
        else:
            message = "workers take equally many steps, so the examples of a small part are used more often"
            remedy = "partition the data evenly"
        log.event("input-uneven", examples=",".join(map(str, counts)), message=message, remedy=remedy)
    # An endless pipeline of no example would never yield a batch.
    if any(counts) and not all(source.count for source in sources):
        raise DataMissingError(f"{FIELD}: {sum(counts)} examples are too few for {workers} workers")
    return sources


def all_workers_source(sources: Sequence[ExampleSource]) -> ExampleSource:
    """Return an `ExampleSource` with the number of examples of all `sources`; its examples are the first one's."""
    first_skipped = next((source.first_skipped for source in sources if source.first_skipped), None)
    count, skipped = (sum(each) for each in zip(*((source.count, source.skipped) for source in sources), strict=True))
    return replace(sources[0], count=count, skipped=skipped, first_skipped=first_skipped)


def full_batches(
    examples: ExampleSource, *, batch_size: int, seed: int | None, epoch: int, skip_steps: int
) -> tf.data.Dataset:
    """Return an endless dataset of `Batch`es of exactly `batch_size` valid examples, one pass after another.

    Args:
        examples: of one worker.
        batch_size: examples of a step.
        seed: see `stream`.
        epoch: number of the first pass, which decides its order.
        skip_steps: batches of the first pass to skip, which were used before a restart; less than the pass has.
    """
    batches = steps_needed([examples.count], batch_size, 1)
    epoch_range = EpochRange(batches, range(epoch, LAST_EPOCH), skip=min(skip_steps, batches - 1))
    padded = stream(examples, epoch_range, batch_size=batch_size, seed=seed)
    # No padding to remove.
    if examples.count % batch_size == 0:
        return padded
    return padded.map(_without_padding).rebatch(batch_size, drop_remainder=True).prefetch(2)


@do_not_convert
def _without_padding(batch: Batch) -> Batch:
    """Return `batch` with its valid examples only, in tensors of unknown length."""

    def valid(part: tf.Tensor) -> tf.Tensor:
        return tf.cond(all_valid, lambda: part, lambda: tf.boolean_mask(part, batch.valid_mask))

    all_valid = tf.reduce_all(batch.valid_mask)
    shortened: Batch = tf.nest.map_structure(valid, batch)
    return shortened
