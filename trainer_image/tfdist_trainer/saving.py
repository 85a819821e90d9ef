"""Saves and restores the state of a training run: the training loop's side of checkpoints."""

import time
from collections.abc import Callable

from tfdist.contract import CheckpointSettings, Phase
from tfdist.contract_reports import CheckpointReport
from tfdist_trainer import evaluation_store, log
from tfdist_trainer.checkpoint import CheckpointReader, CheckpointWriter, DataCursor, StoredCheckpoint
from tfdist_trainer.errors import StorageError
from tfdist_trainer.fence import writer_of
from tfdist_trainer.initial_checkpoint import initial_checkpoint
from tfdist_trainer.reporter import Reporter
from tfdist_trainer.save_schedule import SaveSchedule
from tfdist_trainer.state import State
from tfdist_trainer.steps_per_execution import MAX_STEPS_PER_EXECUTION
from tfdist_trainer.stored_checkpoint import stored_checkpoint
from tfdist_trainer.strategies.replica_group import ReplicaGroup
from tfdist_trainer.timestamps import now_text


class Saver:
    """Restores and saves the state of one training run; does neither if the job has no `checkpoint` settings."""

    def __init__(
        self, settings: CheckpointSettings | None, gang: ReplicaGroup, state: State, reporter: Reporter
    ) -> None:
        self._settings = settings
        self._gang = gang
        self._state = state
        self._reporter = reporter
        self._schedule = SaveSchedule(settings) if settings else None
        self._writer: CheckpointWriter | None = None
        self._saved: CheckpointReport | None = None
        self._stop_reason = ""
        self._next_poll = 0.0
        """Time of `time.monotonic` at which the request to stop is read again."""

    @property
    def can_save(self) -> bool:
        """Whether checkpoints are written at all."""
        return self._schedule is not None

    def restore(self, *, required: bool) -> DataCursor | None:
        """Claim the directory and restore the initial checkpoint; return its cursor, None if there is none.

        A standby process, for which it is `required`, has changed the state before.

        Raises:
            CheckpointUnwritableError: the directory cannot be written, or a later attempt has claimed it.
            StorageError: a member cannot read the checkpoint, or there is none although it is required.
        """
        settings, job = self._settings, self._gang.member.job
        if settings is None:
            return None
        if self._gang.member.is_chief:
            writer = writer_of(job, self._gang.member.round)
            self._writer = CheckpointWriter(settings.directory, keep=settings.keep, writer=writer)
        self._reporter.update(saves_checkpoints=True)
        initial = initial_checkpoint(self._gang, settings, job.uid, self._writer)
        if initial is None:
            if required:
                raise StorageError("checkpoint: there is none from which this standby process could start")
            return None
        checkpoint, record = initial
        self._state.restore(checkpoint)
        if self._schedule is not None:
            self._schedule.record_save(record.cursor.step)
        self._saved = CheckpointReport(step=record.cursor.step, path=str(checkpoint), time=record.time)
        self._reporter.update(last_checkpoint=self._saved)
        log.event("restored", step=record.cursor.step, path=checkpoint, writer=record.writer)
        return record.cursor

    def begin(self) -> None:
        """Remove the record of a finished training, because training continues."""
        if self._writer is not None:
            self._writer.begin()

    def steps_left(self, step: int) -> int:
        """Return how many steps may follow `step` before one that must be saved."""
        return self._schedule.steps_left(step) if self._schedule else MAX_STEPS_PER_EXECUTION

    def steps_to_save(self, cursor: DataCursor, steps_per_epoch: int) -> int | None:
        """Return how many steps after `cursor` the next checkpoint is due at; None if steps do not decide that."""
        if self._schedule is None:
            return None
        if self._schedule.by_epoch:
            return steps_per_epoch - cursor.step_in_epoch
        return self._schedule.steps_left(cursor.step) if self._schedule.by_steps else None

    def is_due(self, cursor: DataCursor) -> bool:
        """Return whether a checkpoint is due at `cursor` and not saved yet."""
        # A checkpoint of step 0 has nothing that a restart would lose.
        if self._schedule is None or cursor.step == 0 or self._is_saved(cursor):
            return False
        return self._schedule.is_due(cursor.step, epoch_ended=cursor.step_in_epoch == 0)

    def save(self, cursor: DataCursor) -> None:
        """Write a checkpoint at `cursor`. Every member calls this, with equal variables; only the chief writes."""
        if self._settings is None or self._schedule is None:
            return
        phase = self._reporter.current.phase
        self._reporter.update(phase=Phase.CHECKPOINTING)
        if self._writer is not None:
            self._saved = self._state.save(self._writer, cursor)
            log.event("checkpoint", step=cursor.step, path=self._saved.path)
        else:
            self._saved = CheckpointReport(step=cursor.step, path=self._path_of(cursor.step), time=now_text())
        self._schedule.record_save(cursor.step)
        self._reporter.update(phase=phase, last_checkpoint=self._saved)

    def is_missing(self, cursor: DataCursor) -> bool:
        """Return whether checkpoints are enabled, and there is none at `cursor` yet."""
        return self.can_save and not self._is_saved(cursor)

    def early_stop_reason(self, step: int) -> str:
        """Return why the evaluator stops training at `step`; "" if it does not. Only the chief reads this."""
        job = self._gang.member.job
        if self._writer is None or not (job.evaluation or {}).get("earlyStopping"):
            return ""
        now = time.monotonic()
        if not self._stop_reason and now >= self._next_poll:
            # In an object store each read is a request, with a price (ADR 46).
            self._next_poll = now + self._writer.folder.poll_seconds
            self._stop_reason = evaluation_store.early_stop_reason(self._writer.folder, job.uid, step)
        return self._stop_reason

    def finish(self, total_steps: int, export: Callable[[StoredCheckpoint, int], None]) -> None:
        """On the chief, `export` the model of the last checkpoint, and name the checkpoint in `final.json`."""
        if self._writer is not None and self._saved is not None:
            # Before `final.json`: a failed export is repeated by the next attempt, which has no step left (ADR 35).
            export(stored_checkpoint(self._saved.path), self._saved.step)
            self._writer.finish(self._saved, total_steps)

    def _is_saved(self, cursor: DataCursor) -> bool:
        """Return whether the directory itself has a checkpoint at `cursor`; a restored one may be elsewhere."""
        if self._saved is None or self._settings is None:
            return False
        return self._saved.step == cursor.step and self._saved.path == self._path_of(cursor.step)

    def _path_of(self, step: int) -> str:
        """Return the path or URL of the checkpoint at `step`."""
        return str(CheckpointReader(self._settings.directory).path_of(step)) if self._settings else ""
