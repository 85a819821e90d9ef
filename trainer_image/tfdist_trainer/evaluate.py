"""Evaluates checkpoints with all members of a gang, none special, over every example exactly once.

Each member adds up sums over its part of the examples, and a collective adds those; so the result is that of
one process to floating-point rounding, and `examples` is exact. The chief also writes the result beside the
checkpoints (`scores`) and into TensorBoard's run `evaluation`.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfdist.contract import CheckpointSettings, Phase
from tfdist.contract_reports import EvaluationReport
from tfdist_trainer import log
from tfdist_trainer.checkpoint import CheckpointReader, Record, read_record
from tfdist_trainer.context import Context, supply_of
from tfdist_trainer.data.files import Split
from tfdist_trainer.errors import ConfigurationError, DataMissingError
from tfdist_trainer.evaluation_summaries import EvaluationSummaries
from tfdist_trainer.pace import Decision, Pace, decide
from tfdist_trainer.reporter import now_text
from tfdist_trainer.saving import LATEST, read_named
from tfdist_trainer.scores import Ledger, Score
from tfdist_trainer.state import agree_on_newest, restore_model
from tfdist_trainer.step import EvaluateStep, metric_sums


@dataclass(frozen=True, slots=True)
class Finding:
    """What one evaluation has found."""

    score: Score
    details: Mapping[str, Mapping[str, Any]]
    """What metrics have to say beyond their values, by name."""


def evaluate(context: Context) -> EvaluationReport:
    """Evaluate the checkpoint that the job names, report, and return the result; a collective.

    Raises:
        ConfigurationError: the job has no `checkpoint.directory`, or forbids to restore.
        DataMissingError: there is no checkpoint, or no example.
        StorageError: the checkpoint cannot be read.
    """
    settings = settings_of(context)
    scorer = Scorer(context, range(1))
    path, record = _find(context, settings)
    finding = scorer.score(path, record)
    if context.member.is_chief:
        ledger_of(context).record(finding.score, finding.details)
        EvaluationSummaries(context).write(finding.score, finding.details)
    context.gang.share([1.0])
    report = finding.score.report
    context.reporter.update(phase=Phase.FINISHED, evaluation=report)
    return report


def settings_of(context: Context) -> CheckpointSettings:
    """Return where the checkpoints are.

    Raises:
        ConfigurationError: the job does not say, or forbids to restore.
    """
    settings = context.checkpoint
    if settings is None or settings.restore == "None":
        raise ConfigurationError("checkpoint: an evaluation needs checkpoint.directory and restore other than None")
    return settings


def ledger_of(context: Context) -> Ledger:
    """Return the files that this member's results go to."""
    return Ledger(Path(settings_of(context).directory), context.member.job.uid, tag=context.writer.host)


class Scorer:
    """Evaluates one checkpoint after another, with one model, one graph and one stream of examples.

    Args:
        context: of this member; making a scorer is a collective.
        times: as many evaluations as there will be at most. An iterator for each would never be freed (`context`).

    Raises:
        DataMissingError: there is no example.
    """

    def __init__(self, context: Context, times: range) -> None:
        self._context = context
        examples = context.program.examples(Split.EVAL, context.shard)
        self._supply = supply_of(context, examples, "training.config.data.eval")
        self._skipped = float(context.gang.share([examples.skipped])[0])
        with context.gang.strategy.scope():
            self._model = context.program.model()
        self._step = EvaluateStep(context.gang, context.program, self._model)
        self._sums = metric_sums(context.program)
        self._iterator = self._supply.iterator(None, times)
        self._pace = Pace()

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the values that an evaluation has."""
        return tuple(self._sums.results(self._sums.zeros()))

    def score(self, path: Path, record: Record) -> Finding:
        """Evaluate the checkpoint directory `path` over all examples of all members; a collective.

        Raises:
            StorageError: the checkpoint cannot be read or is of another model.
        """
        at = record.position
        restore_model(self._model, path)
        log.event(
            "evaluate-start", checkpoint=path, examples=sum(self._supply.counts), members=self._context.member.size
        )
        self._context.reporter.update(phase=Phase.EVALUATING, step=at.step, total_steps=at.step, epoch=at.epoch)
        sums = self._add_up()
        values = dict(self._sums.results(sums)) | ({"skipped_records": self._skipped} if self._skipped else {})
        score = Score(
            step=at.step,
            checkpoint=str(path),
            metrics=values,
            examples=self._sums.examples(sums),
            time=now_text(),
            job=self._context.member.job.uid,
            saved_at=record.time,
        )
        log.event("evaluation", step=score.step, examples=score.examples, **values)
        return Finding(score, self._sums.details(sums))

    def _add_up(self) -> Any:
        """Return the sums over all examples of all members."""
        total = self._sums.zeros()
        done = 0
        while done < self._supply.steps:
            steps = min(self._pace.steps, self._supply.steps - done)
            steps = decide(self._context.gang, Decision(steps)).steps
            started = time.monotonic()
            total = total + self._step.run(self._iterator, tf.constant(steps)).numpy()
            self._pace.measured(steps, time.monotonic() - started)
            done += steps
            self._context.reporter.update(examples=round(total[0]), step_at=now_text())
        return total


def _find(context: Context, settings: CheckpointSettings) -> tuple[Path, Record]:
    """Return the checkpoint to evaluate: the path given, else the final one of this job, else the newest whole one.

    Raises:
        DataMissingError: there is none.
        StorageError: it is damaged.
    """
    gang, directory = context.gang, Path(settings.directory)
    if settings.restore != LATEST:
        path = directory / settings.restore  # an absolute `restore` replaces the directory
        if not path.is_dir():
            raise DataMissingError(f"checkpoint.restore: {path} does not exist; it names the folder of a checkpoint")
        return path, read_named(path)
    reader = CheckpointReader(directory)
    final = reader.final(context.member.job.uid) if gang.member.is_chief else None
    step = round(gang.from_chief(final.step + 1 if final else 0)) - 1
    if step >= 0:
        return reader.path_of(step), read_record(reader.path_of(step))
    record = agree_on_newest(gang, reader)
    if record is None:
        raise DataMissingError(f"checkpoint.directory: {directory} holds no checkpoint to evaluate")
    return reader.path_of(record.position.step), record
