"""The training examples of all members: balanced if whole files are uneven, and resumed where a checkpoint was taken.

A step takes a batch from every member. If one member has most of the examples, the others take part in most steps with
examples of weight zero: an epoch takes more steps, each with a part of the global batch. The number of records is known
only after a file was opened, so the decision follows from the counts of all members, which all of them know.
"""

import json
import zlib
from dataclasses import replace
from typing import Final

from tfdist_trainer import log
from tfdist_trainer.checkpoint import DataCursor
from tfdist_trainer.context import Context
from tfdist_trainer.data.files import Split
from tfdist_trainer.data.pipeline import steps_needed
from tfdist_trainer.input_pipeline import InputPipeline, open_input_pipeline
from tfdist_trainer.metrics.collection import MetricCollection
from tfdist_trainer.programs.from_files import FromFiles

UNEVEN: Final = 1.5
"""Ratio of the steps of an epoch to the steps of even shares above which records are assigned instead of whole files.

It is not lower because each member then reads all files.
"""

_FIELD: Final = "training.config.data.train"
_MAX_COUNTS: Final = 16


def open_training_input(context: Context) -> InputPipeline:
    """Return the training examples of this member; a collective. Errors as of `open_input_pipeline`."""
    pipeline = _open(context)
    return replace(pipeline, order=_order(context, by_index=pipeline.examples.by_index))


def _open(context: Context) -> InputPipeline:
    program, shard = context.program, context.shard
    by_index = program.examples_by_index(Split.TRAIN, shard) if isinstance(program, FromFiles) else None
    if by_index is not None:
        pipeline = open_input_pipeline(context.gang, by_index, context.config, _FIELD)
        _log_share(context, pipeline)
        return pipeline
    pipeline = open_input_pipeline(context.gang, program.examples(Split.TRAIN, shard), context.config, _FIELD)
    counts, steps = pipeline.counts, even_steps(pipeline)
    # Only if they are very uneven: each member then reads all files.
    if pipeline.steps > UNEVEN * steps:
        # Every member takes the same branch: it depends on the counts of all and on the configuration.
        if isinstance(program, FromFiles) and program.shard_by_record(Split.TRAIN, shard):
            examples = program.examples(Split.TRAIN, shard)
            pipeline = open_input_pipeline(context.gang, examples, context.config, _FIELD)
            message = "whole files are uneven, so each worker reads all files and uses a part of their records"
            remedy = "write more files, or files with equal numbers of records"
        else:
            message = f"an epoch takes {pipeline.steps} steps instead of {steps}, most with a part of the global batch"
            remedy = "partition the data evenly"
        log.event("input-uneven", examples=_text(counts), message=message, remedy=remedy)
    _log_share(context, pipeline)
    return pipeline


def even_steps(pipeline: InputPipeline) -> int:
    """Return the steps of an epoch if all members had equally many examples."""
    share = -(-sum(pipeline.counts) // len(pipeline.counts))
    return steps_needed([share], pipeline.batch_size, pipeline.gang.replicas_per_member)


def _order(context: Context, *, by_index: bool) -> int:
    """Return a number for what the order of the examples of an epoch follows from, equal on all members; a collective.

    That is the seed, how they are shuffled, and the names of the files. Examples that are read by index have the same
    order with any buffer, and for any gang. What a `dataset()` of a user's program reads is not known.
    """
    program, buffer = context.program, context.config.shuffle_buffer
    settings: list[object] = [context.seed, buffer > 1 if by_index else buffer]
    files: tuple[str, ...] = ()
    if isinstance(program, FromFiles):
        data = program.config.data
        settings += [] if by_index else [data.interleave, data.cache]
        files = program.all_files(Split.TRAIN) if by_index else program.assignment(Split.TRAIN, context.shard).files
    # Exchanged, because members may see different files, and all must make the same decision when they resume.
    names = context.gang.all_gather(zlib.crc32("\n".join(files).encode(errors="surrogateescape")))
    settings += map(round, names[:1] if by_index else names)
    return zlib.crc32(json.dumps(settings).encode()) or 1


def _log_share(context: Context, pipeline: InputPipeline) -> None:
    """Log the share of this member: files if they are known, examples, and steps of an epoch."""
    program, files, sharding = context.program, None, None
    if isinstance(program, FromFiles):
        part = program.assignment(Split.TRAIN, context.shard)
        files, sharding = len(part.files), "record" if part.stride > 1 else "file"
        if pipeline.examples.by_index:
            files, sharding = len(program.all_files(Split.TRAIN)), "index"
    count, total = pipeline.examples.count, sum(pipeline.counts)
    log.event("input", files=files, sharding=sharding, examples=count, of=total, stepsPerEpoch=pipeline.steps)


def _text(counts: tuple[int, ...]) -> str:
    shown = ",".join(map(str, counts[:_MAX_COUNTS]))
    return shown if len(counts) <= _MAX_COUNTS else f"{shown},..."


_GANG: Final = 2
"""The first numbers of a sharding signature: batch size and number of replicas."""


def resume_cursor(
    cursor: DataCursor, sharding_signature: tuple[int, ...], sums: MetricCollection, *, by_index: bool
) -> DataCursor:
    """Return the cursor from which training continues.

    Args:
        cursor: the cursor in the checkpoint.
        sharding_signature: the current one, see `DataCursor.sharding_signature`. If it differs, the epoch starts
            again: `step_in_epoch` would no longer name the same examples.
        sums: the current metrics. Sums of metrics that the checkpoint lacks start at zero.
        by_index: whether examples are read by index. Then `examples_in_epoch` names the same examples for any gang, and
            the epoch starts again only if their number, their order or the way of reading them has changed.
    """
    zeros = tuple(sums.zeros())
    # By index the position is a number of examples, whatever the gang (ADR 40).
    first = _GANG if by_index and cursor.metrics else 0
    # The position would name other examples: some would be used twice, others never.
    if cursor.step_in_epoch and cursor.sharding_signature[first:] != sharding_signature[first:]:
        reason = "the number of replicas, the data, or the order of the examples has changed"
        log.event("epoch-restarted", epoch=cursor.epoch + 1, reason=reason)
        return cursor.model_copy(update={"step_in_epoch": 0, "metric_sums": zeros})
    if cursor.step_in_epoch and cursor.sharding_signature != sharding_signature:
        log.event(
            "epoch-continued", epoch=cursor.epoch + 1, examples=cursor.examples_in_epoch, of=sharding_signature[_GANG]
        )
    if cursor.metrics == sums.sizes:
        return cursor
    # At the begin of an epoch nothing is summed yet.
    if not cursor.step_in_epoch or not cursor.metrics:
        return cursor.model_copy(update={"metric_sums": zeros})
    new = [metric[0] for metric in sums.sizes if metric not in cursor.metrics]
    log.event("metrics-changed", new=",".join(new) or None, reason="new metrics cover only the rest of this epoch")
    return cursor.model_copy(update={"metric_sums": tuple(sums.restore_sums(cursor.metric_sums, cursor.metrics))})
