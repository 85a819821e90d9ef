"""The checkpoints of a script: written by its chief in the background, in the trainer's own format on disk."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tfdist.contract import CheckpointSettings
from tfdist.contract_reports import CheckpointReport
from tfdist_trainer import log
from tfdist_trainer.checkpoint import CheckpointRecord, CheckpointWriter, DataCursor
from tfdist_trainer.environment import GangMember
from tfdist_trainer.evaluation_store import EvaluationStore
from tfdist_trainer.fence import writer_of
from tfdist_trainer.initial_checkpoint import initial_checkpoint
from tfdist_trainer.keras import training_state
from tfdist_trainer.keras.training_state import FitSnapshot
from tfdist_trainer.save_schedule import SaveSchedule
from tfdist_trainer.strategies.replica_group import ReplicaGroup
from tfdist_trainer.timestamps import now_text

_MILLIS: Final = 1000


@dataclass(frozen=True, slots=True)
class WriteObserver:
    """What is called in the background while a checkpoint is written."""

    before: Callable[[CheckpointReport], None] = lambda _: None
    """Called before the checkpoint is complete, so before any process can resume from it."""
    after: Callable[[CheckpointReport], None] = lambda _: None
    """Called when the checkpoint is complete."""


class ScriptCheckpoints:
    """Finds the initial checkpoint for all workers; schedules and writes checkpoints on the chief."""

    def __init__(self, settings: CheckpointSettings, member: GangMember) -> None:
        self._settings = settings
        self._job = member.job.uid
        self._writer: CheckpointWriter | None = None
        writer = writer_of(member.job, member.round)
        if member.is_chief:
            self._writer = CheckpointWriter(settings.directory, keep=settings.keep, writer=writer)
        self.evaluations = EvaluationStore(settings.directory, self._job, tag=writer.host)
        self._schedule = SaveSchedule(settings)
        self._has_begun = False
        """Whether this process has written a checkpoint."""
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None
        self._written: CheckpointReport | None = None

    def restore(self, gang: ReplicaGroup) -> tuple[CheckpointRecord, str, FitSnapshot] | None:
        """Claim the directory; return record, path or URL, and content of the initial checkpoint. A collective.

        Returns None if there is none.

        Raises:
            CheckpointUnwritableError: the directory cannot be written, or a later attempt has claimed it.
            ConfigurationError: another job writes there.
            StorageError: a worker cannot read the checkpoint.
        """
        initial = initial_checkpoint(gang, self._settings, self._job, self._writer)
        if initial is None:
            return None
        checkpoint, record = initial
        # Else the first step after a restart would be saved at once.
        self._schedule.record_save(record.cursor.step)
        self._written = CheckpointReport(step=record.cursor.step, path=str(checkpoint), time=record.time)
        return record, str(checkpoint), training_state.read(checkpoint)

    def is_due(self, step: int, *, epoch_ended: bool) -> bool:
        """Return whether to save after `step` steps; never while the last checkpoint is being written."""
        # Training never waits for a slow storage: a checkpoint that is due meanwhile comes later.
        return self._writer is not None and not self.is_writing and self._schedule.is_due(step, epoch_ended=epoch_ended)

    @property
    def is_writing(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._thread is not None and self._thread.is_alive()

    def save(self, cursor: DataCursor, snapshot: FitSnapshot, blocked_seconds: float, observer: WriteObserver) -> None:
        """Write a checkpoint in the background, after one that is being written; on the chief only.

        Args:
            cursor: where training is.
            snapshot: its state there.
            blocked_seconds: seconds that the steps have waited for the snapshot.
            observer: follows the write.

        Raises:
            Exception: of the last write.
        """
        if self._writer is None:
            return
        # One write at a time; an error of the last one is raised here, on the main thread.
        self.wait()
        if not self._has_begun:
            self._has_begun = True
            # Only now `final.json` of an earlier training is wrong.
            self._writer.begin()
        self._schedule.record_save(cursor.step)
        arguments = (self._writer, cursor, snapshot, blocked_seconds, observer)
        self._thread = threading.Thread(target=self._write, args=arguments, name="checkpoint")
        self._thread.start()

    def wait(self) -> None:
        """Wait until the last checkpoint is written.

        Raises:
            Exception: it could not be written.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.newest()

    def newest(self) -> CheckpointReport | None:
        """Return the newest checkpoint that is written or was restored, None if there is none.

        Raises:
            Exception: one could not be written.
        """
        if self._error is not None:
            raise self._error
        return self._written

    def finish(self, total_steps: int) -> None:
        """Name the last checkpoint in `final.json`, and let other jobs write into the directory."""
        if self._writer is not None and self._written is not None:
            self._writer.finish(self._written, total_steps)

    def _write(
        self,
        writer: CheckpointWriter,
        cursor: DataCursor,
        snapshot: FitSnapshot,
        blocked_seconds: float,
        observer: WriteObserver,
    ) -> None:
        started = time.monotonic()
        try:
            now = now_text()
            checkpoint = writer.report(cursor.step, now)

            def write(prefix: str) -> None:
                snapshot.write(prefix)
                # The evaluation is stored before the checkpoint is complete: a process that resumes from it does not
                # evaluate it again.
                observer.before(checkpoint)

            self._written = writer.write(cursor, now, write)
            observer.after(checkpoint)
        except Exception as error:  # raised by the main thread
            self._error = error
            return
        seconds = time.monotonic() - started
        log.event(
            "checkpoint",
            step=cursor.step,
            path=self._written.path,
            blockedMillis=round(_MILLIS * blocked_seconds),
            writeSeconds=round(seconds, 2),
        )
