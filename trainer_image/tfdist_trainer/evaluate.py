"""Evaluates one checkpoint with all members of a gang, none special, over every example exactly once.

Each member adds up sums over its part of the examples, and a collective adds those; so the result is that of
one process to floating-point rounding, and `examples` is exact. The chief also writes the result to
`<checkpoint directory>/evaluation/<step>.json`, and what metrics have to say beyond their values, such as a
confusion matrix, to `<step>-details.json`.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfdist.contract import CheckpointSettings, EvaluationReport, Phase
from tfdist_trainer import atomic, log
from tfdist_trainer.checkpoint import CheckpointReader, Record, read_record
from tfdist_trainer.context import Context, Supply, supply_of
from tfdist_trainer.data.files import Split
from tfdist_trainer.errors import ConfigurationError, DataMissingError
from tfdist_trainer.pace import Pace, decide
from tfdist_trainer.reporter import now_text
from tfdist_trainer.state import agree_on_newest, restore_model
from tfdist_trainer.step import EvaluateStep, metric_sums
from tfdist_trainer.strategies.gang import Gang

DIRECTORY = "evaluation"


def evaluate(context: Context) -> EvaluationReport:
    """Evaluate the checkpoint that the job names, report, and return the result; a collective.

    Raises:
        ConfigurationError: the job has no `checkpoint.directory`, or forbids to restore.
        DataMissingError: there is no checkpoint, or no example.
        StorageError: the checkpoint cannot be read.
    """
    settings = context.checkpoint
    if settings is None or settings.restore == "None":
        raise ConfigurationError("checkpoint: an evaluation needs checkpoint.directory and restore other than None")
    examples = context.program.examples(Split.EVAL, context.shard)
    supply = supply_of(context, examples, "training.config.data.eval")
    path, record = _find(context.gang, settings)
    with context.gang.strategy.scope():
        model = context.program.model()
    restore_model(model, path)
    log.event("evaluate-start", checkpoint=path, examples=sum(supply.counts), members=context.member.size)
    step = record.position.step
    context.reporter.update(phase=Phase.EVALUATING, step=step, total_steps=step, epoch=record.position.epoch)
    sums = _run(context, supply, EvaluateStep(context.gang, context.program, model))
    names = metric_sums(context.program)
    details = names.details(sums)
    skipped = float(context.gang.share([examples.skipped])[0])
    report = EvaluationReport(
        step=step,
        checkpoint=str(path),
        metrics=dict(names.results(sums)) | ({"skipped_records": skipped} if skipped else {}),
        examples=names.examples(sums),
        time=now_text(),
    )
    _publish(context, Path(settings.directory), report, details)
    return report


def _find(gang: Gang, settings: CheckpointSettings) -> tuple[Path, Record]:
    """Return the checkpoint to evaluate: the path given, else the final one, else the newest."""
    if settings.restore != "Latest":
        path = Path(settings.directory, settings.restore)  # an absolute `restore` replaces the directory
        return path, read_record(path)
    reader = CheckpointReader(Path(settings.directory))
    final = reader.final() if gang.member.is_chief else None
    step = round(gang.from_chief(final.step + 1 if final else 0)) - 1
    if step >= 0:
        return reader.path_of(step), read_record(reader.path_of(step))
    record = agree_on_newest(gang, reader)
    if record is None:
        raise DataMissingError(f"checkpoint.directory: {settings.directory} holds no checkpoint to evaluate")
    return reader.path_of(record.position.step), record


def _run(context: Context, supply: Supply, step: EvaluateStep) -> "tf.Tensor":
    """Return the sums over all examples of all members."""
    iterator = supply.iterator(None, range(1))
    pace = Pace()
    total = metric_sums(context.program).zeros()
    done = 0
    while done < supply.steps:
        steps = decide(context.gang, steps=min(pace.steps, supply.steps - done), save=False, stop=False).steps
        started = time.monotonic()
        total = total + step.run(iterator, tf.constant(steps)).numpy()
        pace.measured(steps, time.monotonic() - started)
        done += steps
        context.reporter.update(examples=round(total[0]), step_at=now_text())
    return total


def _publish(
    context: Context, directory: Path, report: EvaluationReport, details: Mapping[str, Mapping[str, Any]]
) -> None:
    """Report the result, and have the chief write it next to the checkpoints."""
    if context.member.is_chief:
        path = directory / DIRECTORY / f"{report.step}.json"
        try:
            path.parent.mkdir(exist_ok=True)
            if details:
                text = json.dumps({"step": report.step, "examples": report.examples} | dict(details))
                atomic.write_text(path.with_name(f"{report.step}-details.json"), text, tag=context.writer.host)
            atomic.write_text(path, report.to_json(), tag=context.writer.host)
        except OSError as error:
            raise atomic.storage_failure(error, path.parent) from error
    log.event("evaluation", step=report.step, examples=report.examples, **report.metrics)
    context.gang.share([1.0])
    context.reporter.update(phase=Phase.FINISHED, evaluation=report)
