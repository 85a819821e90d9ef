"""The evaluator that runs during training: evaluates every checkpoint of its job, up to the last one.

It is a separate gang and communicates with training only through files (`evaluation_store`). It evaluates the
oldest checkpoint first, because that one is removed next; once training has finished, the last one first, because a
deadline may be running. Its progress is in the files, so it may be killed at any time and resumes. It skips a
checkpoint that is damaged, or removed while it is read; only the last one must be readable.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

import pydantic

from tfdist.api.export import ExportedModel
from tfdist.api.training import EvaluationMode
from tfdist.contract import Phase
from tfdist.contract_reports import EvaluationReport
from tfdist_trainer import log
from tfdist_trainer.checkpoint import CheckpointReader, CheckpointRecord, FinalRecord, StoredCheckpoint
from tfdist_trainer.context import Context
from tfdist_trainer.errors import ConfigurationError, StorageError
from tfdist_trainer.evaluate import (
    CheckpointEvaluator,
    Evaluation,
    checkpoint_settings_of,
    evaluation_store_of,
    evaluation_summaries_of,
)
from tfdist_trainer.evaluation_store import BestPolicy, StoredEvaluation
from tfdist_trainer.program_model import export_checkpoint
from tfdist_trainer.step import metric_sums
from tfdist_trainer.storage.folder import DamagedError
from tfdist_trainer.stored_checkpoint import stored_checkpoint

POLL_SECONDS: Final = 1.0
"""Interval at which the directory is read; each read opens a small file for each checkpoint."""

ENDLESS: Final = range(2**31 - 1)

Evaluate = Callable[[StoredCheckpoint, CheckpointRecord], Evaluation]


def wait_for_checkpoint(context: Context, sleep: Callable[[float], None] = time.sleep) -> None:
    """Return when there is a checkpoint to evaluate."""
    reader, job = CheckpointReader(checkpoint_settings_of(context).directory), context.member.job.uid
    log.event("waiting", message=f"for the first checkpoint in {reader.folder}")
    context.reporter.update(phase=Phase.EVALUATING)
    while reader.final(job) is None and not any(record.writer.job == job for record in reader.records()):
        sleep(max(POLL_SECONDS, reader.folder.poll_seconds))


def evaluate_continuously(context: Context, sleep: Callable[[float], None] = time.sleep) -> None:
    """Evaluate checkpoints until the last one of a finished training is evaluated.

    Raises:
        ConfigurationError: the program has no metric `evaluation.metric`.
        DataMissingError: there are no examples.
        StorageError: the last checkpoint is damaged, or the storage failed.
    """
    policy = best_policy_of(context)
    checkpoint_evaluator = CheckpointEvaluator(context, ENDLESS)
    _check_metric(policy, checkpoint_evaluator.metrics)
    evaluator = Evaluator(context, policy, lambda *checkpoint: checkpoint_evaluator.evaluate(checkpoint))
    while not evaluator.evaluate_pending():
        sleep(evaluator.poll_seconds)


def check_metric(context: Context) -> None:
    """Check before training that the program computes the metric by which an evaluator selects checkpoints.

    Raises:
        ConfigurationError: it does not.
    """
    evaluation = context.member.job.evaluation or {}
    if EvaluationMode(evaluation.get("mode", EvaluationMode.NONE)).during_training:
        sums = metric_sums(context.program)
        _check_metric(best_policy_of(context), tuple(sums.results(sums.zeros())))


def _check_metric(policy: BestPolicy, computed: Sequence[str]) -> None:
    if policy.metric not in computed:
        raise ConfigurationError(
            f"evaluation.metric: the program computes {', '.join(computed)}, not {policy.metric!r}; use one of these, "
            "with evaluation.goal: Minimize if less is better"
        )


def best_policy_of(context: Context) -> BestPolicy:
    """Return the policy in the job's `evaluation`.

    Raises:
        ConfigurationError: a field is wrong.
    """
    settings = context.member.job.evaluation or {}
    try:
        return BestPolicy.model_validate(settings)
    except pydantic.ValidationError as error:
        # Imported here: only an error needs validation, which has the texts of `tfdist validate`.
        from tfdist.validation.config_errors import config_errors  # noqa: PLC0415

        errors = config_errors(error, BestPolicy, settings, "evaluation", "check its spelling")
        raise ConfigurationError("; ".join(map(str, errors))) from None


class Evaluator:
    """Evaluates the checkpoints of one job, and reports the best.

    Args:
        context: of the evaluator.
        policy: selects the best result and decides on early stopping.
        evaluate: evaluates one checkpoint; see `CheckpointEvaluator.evaluate`.
    """

    def __init__(self, context: Context, policy: BestPolicy, evaluate: Evaluate) -> None:
        self._context = context
        self._job = context.member.job.uid
        self._reporter = context.reporter
        self._reader = CheckpointReader(checkpoint_settings_of(context).directory)
        self._store = evaluation_store_of(context)
        self._summaries = evaluation_summaries_of(context)
        self._policy = policy
        self._evaluate = evaluate
        self._results = self._store.results()
        self._unreadable: set[tuple[int, str]] = set()
        self._apply_policy()

    @property
    def poll_seconds(self) -> float:
        """Interval at which the directory is read."""
        return max(POLL_SECONDS, self._reader.folder.poll_seconds)

    def evaluate_pending(self) -> bool:
        """Evaluate all pending checkpoints; return whether the last checkpoint of the job is evaluated.

        Raises:
            StorageError: the last checkpoint is damaged, or the storage failed.
        """
        while True:
            final_record = self._reader.final(self._job)
            pending = self._pending_checkpoints(final_record)
            if not pending:
                break
            # The last one first once training has ended: a deadline may be running.
            last = final_record is not None and final_record.step in pending
            record = pending[final_record.step] if final_record is not None and last else min(pending.items())[1]
            self._evaluate_one(record, required=last)
        if final_record is None:
            return False
        if final_record.step not in self._results:
            raise StorageError(f"{self._reader.path_of(final_record.step)}: the last checkpoint does not exist")
        self._store.end()
        best = self._update_best()
        # Only now the best one is known (ADR 35).
        if best is not None and best.checkpoint:
            export_checkpoint(self._context, ExportedModel.BEST, stored_checkpoint(best.checkpoint), best.step)
        self._report(Phase.FINISHED, final_record, best)
        return True

    def _pending_checkpoints(self, final_record: FinalRecord | None) -> dict[int, CheckpointRecord]:
        """Return the checkpoints without a result, by step: all of this job, and the last one of any job."""
        last = final_record.step if final_record else -1
        return {
            record.cursor.step: record
            for record in self._reader.records()
            if (record.writer.job == self._job or record.cursor.step == last) and not self._is_evaluated(record)
        }

    def _is_evaluated(self, record: CheckpointRecord) -> bool:
        step = record.cursor.step
        result = self._results.get(step)
        return (result is not None and result.saved_at == record.time) or (step, record.time) in self._unreadable

    def _evaluate_one(self, record: CheckpointRecord, *, required: bool) -> None:
        """Evaluate a checkpoint; skip it if it is removed or damaged, unless it is `required`."""
        step = record.cursor.step
        checkpoint = self._reader.path_of(step)
        # Before it is read: the chief keeps a checkpoint that is being evaluated (ADR 12).
        self._store.begin(step)
        try:
            evaluation = self._evaluate(checkpoint, checkpoint.record())
        except StorageError as error:
            # Removed by retention between the list and the read (ADR 12).
            if not checkpoint.exists() and not required:
                log.event("checkpoint-removed", step=step)
                return
            if required or not isinstance(error, DamagedError):
                raise  # a restarted evaluator evaluates it, where the storage has failed for a moment
            log.event("checkpoint-damaged", message=str(error))
            self._unreadable.add((step, record.time))
            return
        self._summaries.write(evaluation.result, evaluation.details)
        # After the summaries: once stored it is never evaluated again.
        self._store.record(evaluation.result, evaluation.details)
        self._results[step] = evaluation.result
        self._apply_policy()

    def _apply_policy(self) -> None:
        """Write and report the best result, and request early stopping if it is due."""
        if not self._results:
            return
        reason = self._policy.early_stop_reason(self._results.values())
        if reason:
            log.event("early-stopping", reason=reason)
            self._store.request_stop(max(self._results), reason)
        self._report(Phase.EVALUATING, self._reader.final(self._job), self._update_best())

    def _update_best(self) -> StoredEvaluation | None:
        return self._store.update_best(
            self._policy, self._results, lambda result: self._reader.has(result.step, result.saved_at)
        )

    def _report(self, phase: Phase, final_record: FinalRecord | None, best: StoredEvaluation | None) -> None:
        newest = self._results[max(self._results)]
        last = self._results.get(final_record.step) if final_record else None
        self._reporter.update(
            phase=phase,
            step=newest.step,
            evaluation=newest.report,
            best_evaluation=_report_of(best),
            final_evaluation=_report_of(last),
        )


def _report_of(result: StoredEvaluation | None) -> EvaluationReport | None:
    return result.report if result else None
