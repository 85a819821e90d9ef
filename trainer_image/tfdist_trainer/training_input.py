"""Opens the training examples of all members, and balances them if whole files are uneven.

A step takes a batch from every member. If one member has most of the examples, the others take part in most steps with
examples of weight zero: an epoch takes more steps, each with a part of the global batch. The number of records is known
only after a file was opened, so the decision follows from the counts of all members, which all of them know.
"""

import json
import zlib
from dataclasses import replace
from typing import Final

from tfdist_trainer import log
from tfdist_trainer.context import Context
from tfdist_trainer.data.files import Split
from tfdist_trainer.data.pipeline import steps_needed
from tfdist_trainer.input_pipeline import InputPipeline, open_input_pipeline
from tfdist_trainer.programs.from_files import FromFiles

UNEVEN: Final = 1.5
"""Ratio of the steps of an epoch to those of even shares above which records are assigned instead of whole files.

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
