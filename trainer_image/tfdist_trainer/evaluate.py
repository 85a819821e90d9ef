"""Evaluates checkpoints on all members of a gang, on every example exactly once.

Each member sums the metrics over its part of the examples, and an all-reduce adds these sums. So the result equals
the result of one process up to floating-point rounding, and `examples` is exact. The chief also writes the result to
the checkpoint directory (`evaluation_store`) and to the TensorBoard run `evaluation`.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfdist.contract import CheckpointSettings, Phase
from tfdist.contract_reports import EvaluationReport
from tfdist_trainer import ensemble, log
from tfdist_trainer.checkpoint import CheckpointReader, CheckpointRecord, StoredCheckpoint
from tfdist_trainer.context import Context
from tfdist_trainer.data.files import Split
from tfdist_trainer.errors import ConfigurationError, DataMissingError, StorageError
from tfdist_trainer.evaluation_store import EvaluationStore, StoredEvaluation
from tfdist_trainer.initial_checkpoint import LATEST, existing_checkpoint, share_record
from tfdist_trainer.input_pipeline import open_input_pipeline
from tfdist_trainer.loop_decision import LoopDecision, agree
from tfdist_trainer.programs.models import new_model
from tfdist_trainer.state import restore_model
from tfdist_trainer.step import EvaluateStep, metric_sums
from tfdist_trainer.steps_per_execution import StepsPerExecutionTuner
from tfdist_trainer.storage.locations import join_location
from tfdist_trainer.summaries import EvaluationSummaries, folder_of
from tfdist_trainer.timestamps import now_text


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The outcome of evaluating one checkpoint."""

    result: StoredEvaluation
    details: Mapping[str, Mapping[str, Any]]
    """Results of metrics that are not a single number, by metric."""


def evaluate(context: Context) -> EvaluationReport:
    """Evaluate the job's checkpoint, report and return the result; a collective.

    Raises:
        ConfigurationError: the job has no `checkpoint.directory`, or `checkpoint.restore` is `None`.
        DataMissingError: no checkpoint, or no example, exists.
        StorageError: the checkpoint cannot be read.
    """
    settings = checkpoint_settings_of(context)
    evaluator = CheckpointEvaluator(context, range(1))
    members = ensemble.members(context.member.job)
    checkpoints = ensemble.checkpoints(context.member.job, members) if members else [_find(context, settings)]
    evaluation = evaluator.evaluate(*checkpoints)
    if context.member.is_chief:
        evaluation_store_of(context).record(evaluation.result, evaluation.details)
        evaluation_summaries_of(context).write(evaluation.result, evaluation.details)
    # The others wait until the chief has written: a member that exits breaks its connections.
    context.gang.all_reduce_sum([1.0])
    report = evaluation.result.report
    context.reporter.update(phase=Phase.FINISHED, evaluation=report)
    return report


def checkpoint_settings_of(context: Context) -> CheckpointSettings:
    """Return the checkpoint settings of an evaluation.

    Raises:
        ConfigurationError: there are none, or `checkpoint.restore` is `None`.
    """
    settings = context.checkpoint
    if settings is None or settings.restore == "None":
        raise ConfigurationError("checkpoint: an evaluation needs checkpoint.directory and a restore that is not None")
    return settings


def evaluation_store_of(context: Context) -> EvaluationStore:
    """Return the store for the results of this member."""
    return EvaluationStore(checkpoint_settings_of(context).directory, context.member.job.uid, tag=context.writer.host)


def evaluation_summaries_of(context: Context) -> EvaluationSummaries:
    """Return the summaries for the results of this member."""
    return EvaluationSummaries(folder_of(context.member.job.log_directory, context.checkpoint))


class CheckpointEvaluator:
    """Evaluates checkpoints one after the other, with one model, one graph and one input pipeline.

    Args:
        context: of this member; creating an evaluator is a collective.
        times: the largest possible number of evaluations. An iterator for each would never be freed (`input_pipeline`).

    Raises:
        DataMissingError: there are no examples.
    """

    def __init__(self, context: Context, times: range) -> None:
        self._context = context
        examples = context.program.examples(Split.EVAL, context.shard)
        self._input = open_input_pipeline(context.gang, examples, context.config, "training.config.data.eval")
        self._skipped = float(context.gang.all_reduce_sum([examples.skipped])[0])
        with context.gang.strategy.scope():
            self._model = new_model(context.program, Split.EVAL, context.shard)
        self._step = EvaluateStep(context.gang, context.program, self._model)
        self._sums = metric_sums(context.program)
        self._iterator = self._input.iterator(None, times)
        self._tuner = StepsPerExecutionTuner()

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics in a result."""
        return tuple(self._sums.results(self._sums.zeros()))

    def evaluate(self, *checkpoints: tuple[StoredCheckpoint, CheckpointRecord]) -> Evaluation:
        """Evaluate a checkpoint, or one for each member of an ensemble, over all examples of all members; a collective.

        Raises:
            StorageError: a checkpoint cannot be read or belongs to another model.
        """
        models = getattr(self._model, "members", (self._model,))
        size = self._context.member.size
        for model, (checkpoint, _) in zip(models, checkpoints, strict=True):
            restore_model(model, checkpoint)
            log.event("evaluate-start", checkpoint=checkpoint, examples=sum(self._input.counts), members=size)
        last_checkpoint, last = max(checkpoints, key=lambda entry: entry[1].cursor.step)
        cursor = last.cursor
        self._context.reporter.update(
            phase=Phase.EVALUATING, step=cursor.step, total_steps=cursor.step, epoch=cursor.epoch
        )
        sums = self._total()
        values = dict(self._sums.results(sums)) | ({"skipped_records": self._skipped} if self._skipped else {})
        result = StoredEvaluation(
            step=cursor.step,
            checkpoint=str(last_checkpoint) if len(checkpoints) == 1 else None,
            metrics=values,
            examples=self._sums.examples(sums),
            time=now_text(),
            job=self._context.member.job.uid,
            saved_at=last.time,
        )
        log.event("evaluation", step=result.step, examples=result.examples, **values)
        return Evaluation(result, self._sums.details(sums))

    def _total(self) -> Any:
        """Return the sums over all examples of all members."""
        total = self._sums.zeros()
        finished = 0
        while finished < self._input.steps:
            steps = min(self._tuner.steps, self._input.steps - finished)
            # Tuned by each member's own times, and equal on all (ADR 4).
            steps = agree(self._context.gang, LoopDecision(steps)).steps
            started_at = time.monotonic()
            total = total + self._step.run(self._iterator, tf.constant(steps)).numpy()
            self._tuner.observe(steps, time.monotonic() - started_at)
            finished += steps
            self._context.reporter.update(examples=round(total[0]), step_at=now_text())
        return total


def _find(context: Context, settings: CheckpointSettings) -> tuple[StoredCheckpoint, CheckpointRecord]:
    """Return the checkpoint to evaluate: the given path, or this job's final one, or the newest complete one.

    Raises:
        DataMissingError: no checkpoint exists.
        StorageError: the checkpoint is damaged.
    """
    gang = context.gang
    if settings.restore != LATEST:
        return existing_checkpoint(join_location(settings.directory, settings.restore))
    reader = CheckpointReader(settings.directory)
    # Only the chief reads: members may see a shared directory at different times.
    final_record = reader.final(context.member.job.uid) if gang.member.is_chief else None
    step = round(gang.broadcast_from_chief(final_record.step + 1 if final_record else 0)) - 1
    if step >= 0:
        return reader.path_of(step), reader.path_of(step).record()
    record = share_record(gang, reader, reader.newest() if gang.member.is_chief else None)
    if record is None and reader.damaged:
        raise StorageError(f"checkpoint.directory: all checkpoints are damaged: {'; '.join(reader.damaged.values())}")
    if record is None:
        raise DataMissingError(f"checkpoint.directory: {reader.folder} holds no checkpoint to evaluate")
    return reader.path_of(record.cursor.step), record
