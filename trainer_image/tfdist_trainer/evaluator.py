"""The evaluator beside training: scores every checkpoint of its job, until the last one.

It is a gang of its own and talks to training through files alone (`scores`). Oldest first, because the oldest is the
next to be removed; once training is done the last one first, because a deadline waits for it. What has been scored is
known from the files, so it may be killed at any moment and goes on where it was. A checkpoint that is removed while
it is read, or that is damaged, is passed over; only the last one must be there.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pydantic

from tfdist.contract import Phase
from tfdist.contract_reports import EvaluationReport
from tfdist_trainer import log
from tfdist_trainer.checkpoint import RECORD, CheckpointReader, FinalRecord, Record, glance, read_record
from tfdist_trainer.context import Context
from tfdist_trainer.errors import ConfigurationError, StorageError
from tfdist_trainer.evaluate import Finding, Scorer, ledger_of, settings_of
from tfdist_trainer.evaluation_summaries import EvaluationSummaries
from tfdist_trainer.scores import Judge, Score

POLL_SECONDS: Final = 1.0
"""Between two looks into the directory; a look reads a small file for each checkpoint."""

ENDLESS: Final = range(2**31 - 1)


def await_checkpoint(context: Context, sleep: Callable[[float], None] = time.sleep) -> None:
    """Return when there is a checkpoint to score."""
    reader, job = CheckpointReader(Path(settings_of(context).directory)), context.member.job.uid
    log.event("waiting", message=f"for the first checkpoint in {reader.directory}")
    context.reporter.update(phase=Phase.EVALUATING)
    while reader.final(job) is None and not any(record.writer.job == job for record in reader.told()):
        sleep(POLL_SECONDS)


def follow(context: Context, sleep: Callable[[float], None] = time.sleep) -> None:
    """Score checkpoints until the last one of a finished training is scored.

    Raises:
        ConfigurationError: `evaluation.metric` is no metric of the program.
        DataMissingError: there is no example.
        StorageError: the last checkpoint cannot be read.
    """
    judge = judge_of(context)
    scorer = Scorer(context, ENDLESS)
    if judge.metric not in scorer.metrics:
        raise ConfigurationError(
            f"evaluation.metric: the program computes {', '.join(scorer.metrics)}, and not {judge.metric!r}; name one "
            "of them, with evaluation.goal: Minimize where less is better"
        )
    evaluator = Evaluator(context, judge, scorer.score)
    while not evaluator.look():
        sleep(POLL_SECONDS)


def judge_of(context: Context) -> Judge:
    """Return by what the job tells a better checkpoint from a worse one.

    Raises:
        ConfigurationError: it is malformed.
    """
    try:
        return Judge.model_validate(context.member.job.evaluation or {})
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        path = ".".join(["evaluation", *map(str, first["loc"])])
        raise ConfigurationError(f"{path}: {first['msg']}, not {first['input']!r}") from None


class Evaluator:
    """What is known of the checkpoints of one job.

    Args:
        context: of the evaluator.
        judge: tells better from worse.
        score: evaluates one checkpoint; see `Scorer.score`.
    """

    def __init__(self, context: Context, judge: Judge, score: Callable[[Path, Record], Finding]) -> None:
        directory = Path(settings_of(context).directory)
        self._job = context.member.job.uid
        self._reporter = context.reporter
        self._reader = CheckpointReader(directory)
        self._ledger = ledger_of(context)
        self._summaries = EvaluationSummaries(context)
        self._judge = judge
        self._score = score
        self._scores = self._ledger.scores()
        self._unreadable: set[tuple[int, str]] = set()
        self._conclude()

    def look(self) -> bool:
        """Score all that is there to score; return whether that was all there will be.

        Raises:
            StorageError: the last checkpoint cannot be read.
        """
        while True:
            final = self._reader.final(self._job)
            waiting = self._waiting(final)
            if not waiting:
                break
            last = final is not None and final.step in waiting
            self._try(waiting[final.step] if final is not None and last else min(waiting.items())[1], must=last)
        if final is None:
            return False
        if final.step not in self._scores:
            raise StorageError(f"{self._reader.path_of(final.step)}: the last checkpoint is not there")
        self._ledger.end()
        self._tell(Phase.FINISHED, final)
        return True

    def _waiting(self, final: FinalRecord | None) -> dict[int, Record]:
        """Return the checkpoints that are there and not scored, by step; the last one whoever wrote it."""
        last = final.step if final else -1
        return {
            record.position.step: record
            for record in self._reader.told()
            if (record.writer.job == self._job or record.position.step == last) and not self._is_known(record)
        }

    def _is_known(self, record: Record) -> bool:
        step = record.position.step
        known = self._scores.get(step)
        return (known is not None and known.saved_at == record.time) or (step, record.time) in self._unreadable

    def _try(self, record: Record, *, must: bool) -> None:
        """Score a checkpoint, unless it is gone or damaged."""
        step = record.position.step
        path = self._reader.path_of(step)
        self._ledger.begin(step)
        try:
            finding = self._score(path, read_record(path))
        except StorageError as error:
            if not (path / RECORD).exists() and not must:
                log.event("checkpoint-gone", step=step)
                return
            if must:
                raise
            log.event("checkpoint-damaged", message=str(error))
            self._unreadable.add((step, record.time))
            return
        self._summaries.write(finding.score, finding.details)
        self._ledger.record(finding.score, finding.details)
        self._scores[step] = finding.score
        self._conclude()

    def _conclude(self) -> None:
        """Write and tell what follows from the scores."""
        if not self._scores:
            return
        reason = self._judge.enough(self._scores.values())
        if reason:
            log.event("enough", reason=reason)
            self._ledger.stop(max(self._scores), reason)
        self._tell(Phase.EVALUATING, self._reader.final(self._job))

    def _tell(self, phase: Phase, final: FinalRecord | None) -> None:
        best = self._ledger.choose(self._judge, self._scores, self._is_there)
        newest = self._scores[max(self._scores)]
        last = self._scores.get(final.step) if final else None
        self._reporter.update(
            phase=phase,
            step=newest.step,
            evaluation=newest.report,
            best_evaluation=_report(best),
            final_evaluation=_report(last),
        )

    def _is_there(self, score: Score) -> bool:
        """Return whether the checkpoint that was scored is still there, and not another one of its step."""
        record = glance(self._reader.path_of(score.step))
        return record is not None and record.time == score.saved_at


def _report(score: Score | None) -> EvaluationReport | None:
    return score.report if score else None
