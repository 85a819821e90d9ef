"""When a training saves, and what it begins from: the loop's side of checkpoints.

What a training begins from (`checkpoint.restore`): always the newest checkpoint that this job itself has written,
for a restarted job goes on where it was. Where there is none, `Latest` takes the newest of whoever wrote it, a path
that one, and `None` nothing. Checkpoints of other jobs that are further than that are set aside, into a folder:
they would pass for the newest, and have those of this job removed as the oldest.
"""

from pathlib import Path
from typing import Final

from tfdist.contract import CheckpointSettings, Phase
from tfdist.contract_reports import CheckpointReport
from tfdist_trainer import log, scores
from tfdist_trainer.checkpoint import CheckpointReader, CheckpointWriter, Position, Record, read_record
from tfdist_trainer.context import Context
from tfdist_trainer.errors import StorageError
from tfdist_trainer.pace import MAX_CHUNK, SaveSchedule
from tfdist_trainer.reporter import now_text
from tfdist_trainer.state import State, share_record
from tfdist_trainer.strategies.gang import Gang

LATEST: Final = "Latest"
NOTHING: Final = "None"


class Saver:
    """Restores and saves the state of one training; without settings it does neither."""

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

    def restore(self) -> Position | None:
        """Claim the directory and go to the checkpoint that training begins from; None where there is none.

        Raises:
            CheckpointUnwritableError: the directory cannot be written, or a later attempt writes there.
            StorageError: the checkpoint cannot be read, or not by every member.
        """
        settings, gang = self._settings, self._context.gang
        if settings is None:
            return None
        if gang.member.is_chief:
            directory = Path(settings.directory)
            self._writer = CheckpointWriter(directory, keep=settings.keep, writer=self._context.writer)
            self._writer.claim()
        path, record = find_start(gang, settings, self._context.writer.job)
        if self._writer is not None and settings.restore != LATEST:
            self._writer.set_aside(above=record.position.step if record else -1)
        if path is None or record is None:
            if self._context.gate is not None:
                raise StorageError("checkpoint: there is none from which this program in reserve could begin")
            return None
        self._state.restore(path)
        if self._schedule is not None:
            self._schedule.saved()
        self._saved = CheckpointReport(step=record.position.step, path=str(path), time=record.time)
        self._context.reporter.update(last_checkpoint=self._saved)
        log.event("restored", step=record.position.step, path=path, writer=record.writer)
        return record.position

    def begin(self) -> None:
        """Take back that training is done: it goes on."""
        if self._writer is not None:
            self._writer.begin()

    def steps_left(self, step: int) -> int:
        """Return how many steps may follow `step` before one that must be saved."""
        return self._schedule.steps_left(step) if self._schedule else MAX_CHUNK

    def is_due(self, at: Position) -> bool:
        """Return whether to save at `at`, which has not been done yet."""
        if self._schedule is None or at.step == 0 or self._is_saved(at):
            return False
        return self._schedule.is_due(at.step, epoch_ended=at.step_in_epoch == 0)

    def save(self, at: Position) -> None:
        """Have the chief write a checkpoint at `at`; every member calls this, and has equal variables."""
        if self._settings is None or self._schedule is None:
            return
        reporter = self._context.reporter
        phase = reporter.current.phase
        reporter.update(phase=Phase.CHECKPOINTING)
        if self._writer is not None:
            self._saved = self._state.save(self._writer, at)
            log.event("checkpoint", step=at.step, path=self._saved.path)
        else:
            path = CheckpointReader(Path(self._settings.directory)).path_of(at.step)
            self._saved = CheckpointReport(step=at.step, path=str(path), time=now_text())
        self._schedule.saved()
        reporter.update(phase=phase, last_checkpoint=self._saved)

    def is_missing(self, at: Position) -> bool:
        """Return whether checkpoints are written, and there is none of `at` yet."""
        return self.can_save and not self._is_saved(at)

    def told_to_stop(self, step: int) -> str:
        """Return why the evaluator says that training may end at `step`, as the chief reads it; "" while it may not."""
        if self._writer is None or not (self._context.member.job.evaluation or {}).get("earlyStopping"):
            return ""
        return scores.told_to_stop(self._writer.directory, self._context.writer.job, step)

    def finish(self, total_steps: int) -> None:
        """Name the last checkpoint in `final.json`."""
        if self._writer is not None and self._saved is not None:
            self._writer.finish(self._saved, total_steps)

    def _is_saved(self, at: Position) -> bool:
        """Return whether the directory has a checkpoint of this step: one restored from elsewhere is not there."""
        if self._saved is None or self._settings is None:
            return False
        return self._saved.step == at.step and Path(self._saved.path).parent == Path(self._settings.directory)


def find_start(gang: Gang, settings: CheckpointSettings, job: str) -> tuple[Path | None, Record | None]:
    """Return the checkpoint that training begins from, as the chief sees it, or (None, None); a collective."""
    reader = CheckpointReader(Path(settings.directory))
    own = None
    if gang.member.is_chief:
        own = reader.newest() if settings.restore == LATEST else reader.newest(written_by=job)
    record = share_record(gang, reader, own)
    if record is not None:
        return reader.path_of(record.position.step), record
    if settings.restore in {LATEST, NOTHING}:
        return None, None
    path = Path(settings.directory, settings.restore)  # an absolute path replaces the directory
    return path, read_named(path)


def read_named(path: Path) -> Record:
    """Return the record of the checkpoint that `checkpoint.restore` names.

    Raises:
        StorageError: it does not exist or is damaged.
    """
    try:
        return read_record(path)
    except StorageError as error:
        raise StorageError(f"checkpoint.restore: {error}") from None
