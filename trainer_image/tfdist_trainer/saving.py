"""Saves and restores the state of a training run: the training loop's side of checkpoints."""

from pathlib import Path

from tfdist.api.export import ExportedModel
from tfdist.contract import Phase
from tfdist.contract_reports import CheckpointReport
from tfdist_trainer import evaluation_store, log
from tfdist_trainer.checkpoint import CheckpointReader, CheckpointWriter, DataCursor
from tfdist_trainer.context import Context
from tfdist_trainer.errors import StorageError
from tfdist_trainer.initial_checkpoint import LATEST, find_initial_checkpoint
from tfdist_trainer.program_export import export_checkpoint
from tfdist_trainer.reporter import now_text
from tfdist_trainer.save_schedule import SaveSchedule
from tfdist_trainer.state import State
from tfdist_trainer.steps_per_execution import MAX_STEPS_PER_EXECUTION


class Saver:
    """Restores and saves the state of one training run; does neither if the job has no `checkpoint` settings."""

    def __init__(self, context: Context, state: State) -> None:
        self._context = context
        self._state = state
        self._settings = context.checkpoint
        self._schedule = SaveSchedule(context.checkpoint) if context.checkpoint else None
        self._writer: CheckpointWriter | None = None
        self._saved: CheckpointReport | None = None

    @property
    def can_save(self) -> bool:
        """Whether checkpoints are written at all."""
        return self._schedule is not None

    def restore(self) -> DataCursor | None:
        """Claim the directory and restore the initial checkpoint; return its cursor, None if there is none.

        Raises:
            CheckpointUnwritableError: the directory cannot be written, or a later attempt has claimed it.
            StorageError: a member cannot read the checkpoint.
        """
        settings, gang = self._settings, self._context.gang
        if settings is None:
            return None
        if gang.member.is_chief:
            directory = Path(settings.directory)
            self._writer = CheckpointWriter(directory, keep=settings.keep, writer=self._context.writer)
            self._writer.claim()
        path, record = find_initial_checkpoint(gang, settings, self._context.writer.job)
        if self._writer is not None and settings.restore != LATEST:
            self._writer.set_aside(above=record.cursor.step if record else -1)
        if path is None or record is None:
            if self._context.start_barrier is not None:
                raise StorageError("checkpoint: there is none from which this standby process could start")
            return None
        self._state.restore(path)
        if self._schedule is not None:
            self._schedule.saved(record.cursor.step)
        self._saved = CheckpointReport(step=record.cursor.step, path=str(path), time=record.time)
        self._context.reporter.update(last_checkpoint=self._saved)
        log.event("restored", step=record.cursor.step, path=path, writer=record.writer)
        return record.cursor

    def begin(self) -> None:
        """Remove the record of a finished training, because training continues."""
        if self._writer is not None:
            self._writer.begin()

    def steps_left(self, step: int) -> int:
        """Return how many steps may follow `step` before one that must be saved."""
        return self._schedule.steps_left(step) if self._schedule else MAX_STEPS_PER_EXECUTION

    def is_due(self, cursor: DataCursor) -> bool:
        """Return whether a checkpoint is due at `cursor` and not saved yet."""
        if self._schedule is None or cursor.step == 0 or self._is_saved(cursor):
            return False
        return self._schedule.is_due(cursor.step, epoch_ended=cursor.step_in_epoch == 0)

    def save(self, cursor: DataCursor) -> None:
        """Write a checkpoint at `cursor`. Every member calls this, with equal variables; only the chief writes."""
        if self._settings is None or self._schedule is None:
            return
        reporter = self._context.reporter
        phase = reporter.current.phase
        reporter.update(phase=Phase.CHECKPOINTING)
        if self._writer is not None:
            self._saved = self._state.save(self._writer, cursor)
            log.event("checkpoint", step=cursor.step, path=self._saved.path)
        else:
            path = CheckpointReader(Path(self._settings.directory)).path_of(cursor.step)
            self._saved = CheckpointReport(step=cursor.step, path=str(path), time=now_text())
        self._schedule.saved(cursor.step)
        reporter.update(phase=phase, last_checkpoint=self._saved)

    def is_missing(self, cursor: DataCursor) -> bool:
        """Return whether checkpoints are enabled, and there is none at `cursor` yet."""
        return self.can_save and not self._is_saved(cursor)

    def early_stop_reason(self, step: int) -> str:
        """Return why the evaluator stops training at `step`; "" if it does not. Only the chief reads this."""
        if self._writer is None or not (self._context.member.job.evaluation or {}).get("earlyStopping"):
            return ""
        return evaluation_store.early_stop_reason(self._writer.directory, self._context.writer.job, step)

    def finish(self, total_steps: int) -> None:
        """Export the model of the last checkpoint, and name the checkpoint in `final.json`."""
        if self._writer is not None and self._saved is not None:
            export_checkpoint(self._context, ExportedModel.FINAL, Path(self._saved.path), self._saved.step)
            self._writer.finish(self._saved, total_steps)

    def _is_saved(self, cursor: DataCursor) -> bool:
        """Return whether the directory itself has a checkpoint at `cursor`; a restored one may be elsewhere."""
        if self._saved is None or self._settings is None:
            return False
        return self._saved.step == cursor.step and Path(self._saved.path).parent == Path(self._settings.directory)
