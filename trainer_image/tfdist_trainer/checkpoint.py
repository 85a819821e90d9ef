"""Checkpoints on disk: complete or absent, read newest first, written only by the chief.

    <directory>/checkpoint-000000470/checkpoint.json     step, writer, and the size and checksum of each file
                                     variables.*         tf.train.Checkpoint
    <directory>/final.json                               the last checkpoint of a finished training
    <directory>/fence.json                               the job and attempt that may write
    <directory>/writer-<uid>.heartbeat                   changes while that job runs, see `writer_heartbeat`
    <directory>/best.json, evaluation/                   results of evaluations, see `evaluation_store`
    <directory>/set-aside-by-<uid>/checkpoint-*          checkpoints of other jobs that job <uid> was not to resume from
    <directory>/damaged/checkpoint-*                     damaged checkpoints, newer than the one that a job resumed from

A checkpoint is written into a temporary directory, flushed, and renamed; so a directory `checkpoint-*` is complete.
Damage since then, a file that is absent or has another size or CRC, is reported, and the checkpoint is skipped. Any
other error of the storage ends the job: a checkpoint that cannot be read now may be whole.
This module does not import TensorFlow: the function that writes the variables is an argument.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pydantic

from tfdist.contract_model import ContractModel
from tfdist.contract_reports import CheckpointReport
from tfdist_trainer import atomic, evaluation_store, log
from tfdist_trainer.errors import StorageError
from tfdist_trainer.fence import Fence, Writer
from tfdist_trainer.storage.folder import DamagedError
from tfdist_trainer.storage.locations import Location, open_folder
from tfdist_trainer.stored_checkpoint import (
    RECORD,
    VARIABLES,
    CheckpointRecord,
    DataCursor,
    FileRecord,
    StoredCheckpoint,
    file_record,
    read_record,
)

__all__ = [
    "FINAL",
    "RECORD",
    "VARIABLES",
    "CheckpointReader",
    "CheckpointRecord",
    "CheckpointWriter",
    "DataCursor",
    "FileRecord",
    "FinalRecord",
    "StoredCheckpoint",
    "name_of",
    "read_record",
]

FINAL: Final = "final.json"
PREFIX: Final = "checkpoint-"
SET_ASIDE: Final = "set-aside-by-"
DAMAGED: Final = "damaged"
_NAME: Final = re.compile(rf"{PREFIX}\d{{9,}}")

WriteVariables = Callable[[str], None]
"""Writes the variables to files whose names start with the given prefix."""


class FinalRecord(ContractModel):
    """`final.json`: the last checkpoint of a finished training run."""

    step: int
    path: str
    time: str
    total_steps: int
    job: str = ""
    """UID of the job that has finished."""


def name_of(step: int) -> str:
    """Return the directory name of the checkpoint at `step`; names sort in the order of steps."""
    return f"{PREFIX}{step:09d}"


class CheckpointReader:
    """Finds checkpoints under one directory, a path or URL."""

    def __init__(self, directory: Location) -> None:
        self.folder = open_folder(directory)
        self.damaged: dict[str, str] = {}
        """Names of the checkpoints that `newest` has skipped, and what is wrong with them."""
        self._last: StoredCheckpoint | None = None

    def newest(self, written_by: str | None = None) -> CheckpointRecord | None:
        """Return the newest complete checkpoint; damaged ones are reported and skipped.

        Args:
            written_by: UID of a job, to consider only its checkpoints; None for the checkpoints of all jobs.

        Raises:
            StorageError: the directory or a checkpoint cannot be read now, which does not mean that it is damaged.
        """
        self.damaged.clear()
        # The newest first; a damaged one costs the steps since the one before, and not the job.
        for name in reversed(self._names()):
            try:
                checkpoint = self._open(name)
                # By the record alone: files of other jobs need not be read. Without a readable record it may be this
                # job's.
                if written_by is not None and _writer_of(checkpoint) not in {None, written_by}:
                    continue
                record = checkpoint.record()
            except DamagedError as error:
                log.event("checkpoint-damaged", message=str(error))
                self.damaged[name] = str(error)
                continue
            if written_by in {None, record.writer.job}:
                return record
        return None

    def final(self, job: str) -> FinalRecord | None:
        """Return `final.json` of the job with this UID; None if that job has not finished training."""
        text = self.folder.read_text(FINAL)
        if text is None:
            return None
        try:
            record = FinalRecord.model_validate_json(text)
        except pydantic.ValidationError as error:
            raise StorageError(f"{self.folder.place(FINAL)}: cannot be read: {error}") from None
        # The directory may have the end of an earlier job.
        return record if record.job == job else None

    def path_of(self, step: int) -> StoredCheckpoint:
        """Return the checkpoint at `step`, which need not exist."""
        return self._open(name_of(step))

    def has(self, step: int, written_at: str) -> bool:
        """Return whether the checkpoint at `step` exists, and was not replaced since it was written at that time."""
        record = self.path_of(step).peek()
        return record is not None and record.time == written_at

    def records(self) -> Iterator[CheckpointRecord]:
        """Yield the record of each checkpoint, oldest first, without checking its files."""
        for name in self._names():
            record = StoredCheckpoint(self.folder.folder(name)).peek()
            if record is not None:
                yield record

    def _names(self) -> list[str]:
        """Return the names of the checkpoints, oldest first."""
        return [name for name in self.folder.names() if _NAME.fullmatch(name)]

    def _open(self, name: str) -> StoredCheckpoint:
        """Return a checkpoint: the last one again, which may have a local copy."""
        if self._last is None or self._last.name != name:
            self._last = StoredCheckpoint(self.folder.folder(name))
        return self._last


class CheckpointWriter(CheckpointReader):
    """Writes checkpoints; only the chief has a writer."""

    def __init__(self, directory: Location, *, keep: int, writer: Writer) -> None:
        super().__init__(open_folder(directory, tag=writer.tag))
        self._keep = keep
        self._written_by_job: dict[str, bool] = {}
        """Names of checkpoints, and whether they are of this job."""
        self._writer = writer
        self._fence = Fence(self.folder, writer)

    def claim(self) -> None:
        """Create and claim the directory, and remove the files of an interrupted write of an earlier attempt.

        Raises:
            CheckpointUnwritableError: the directory cannot be written, or a later attempt has claimed it.
            ConfigurationError: another job writes there.
        """
        self.folder.create()
        # Before the removal of files: they may belong to a writer that runs.
        self._fence.claim()
        self.folder.remove_unfinished(PREFIX, RECORD, _version_in)

    def write(self, cursor: DataCursor, time: str, save: WriteVariables) -> CheckpointReport:
        """Write the checkpoint at `cursor` and remove those before it beyond the newest `keep`.

        Raises:
            CheckpointUnwritableError: the directory cannot be written, or a later attempt has claimed it.
            StorageError: the storage failed.
        """
        name = name_of(cursor.step)
        self._last = None  # the local copy of the checkpoint that was restored
        with self._fence.explain_errors():
            # Before the write, which may take minutes, and again before it appears: a successor may claim the directory
            # meanwhile.
            self._fence.check()
            with self.folder.stage(name) as staged:
                save(str(staged.path / VARIABLES))
                files = {path.name: _flush(path) for path in sorted(staged.path.iterdir())}
                record = CheckpointRecord(
                    cursor=cursor, time=time, writer=self._writer, files=files, version=staged.version
                )
                staged.complete(RECORD, record.to_json())
                self._fence.check()
                staged.publish()
            self._written_by_job[name] = True
            self._prune(name)
        return self.report(cursor.step, time)

    def report(self, step: int, time: str) -> CheckpointReport:
        """Return the report of the checkpoint at `step`, which need not exist yet."""
        return CheckpointReport(step=step, path=self.folder.place(name_of(step)), time=time)

    def set_aside(self, above: int) -> None:
        """Move checkpoints of other jobs after step `above` into a folder, where they do not count for this job.

        Raises:
            CheckpointUnwritableError: the directory cannot be written.
        """
        target = self.folder.folder(f"{SET_ASIDE}{self._writer.job}")
        for name in self._names():
            # Earlier ones are removed by retention in time.
            if name <= name_of(above) or _writer_of(self._open(name)) == self._writer.job:
                continue
            self.folder.move_folder(name, target, RECORD)
            log.event("checkpoint-set-aside", path=target.place(name))

    def set_damaged_aside(self) -> None:
        """Move the damaged checkpoints that `newest` has skipped, where retention and `newest` do not find them again.

        The checkpoints of other jobs stay, so that these jobs find them damaged, and not absent.

        Raises:
            CheckpointUnwritableError: the directory cannot be written.
        """
        target = self.folder.folder(DAMAGED)
        for name in self.damaged:
            record = self._open(name).peek()
            # A damaged checkpoint of another job is that job's to find.
            if record is None or self._writer.replaces(record.writer):
                self.folder.move_folder(name, target, RECORD)
                log.event("checkpoint-set-aside", path=target.place(name))

    def check_progress(self, found: CheckpointRecord | None) -> None:
        """Raise if the job would lose all that it has saved, because all of its checkpoints are damaged.

        Args:
            found: the newest checkpoint, as `newest` of this object has returned it.

        Raises:
            StorageError: it would; the message names each damaged checkpoint, and says what to do.
        """
        if found is not None and found.writer.job == self._writer.job:
            return
        own = [reason for name, reason in self.damaged.items() if self._is_progress(name, found)]
        if own and (found is None or self.newest(written_by=self._writer.job) is None):
            begin = f"at step {found.cursor.step}, of {found.writer}" if found else "at step 0"
            raise StorageError(
                f"checkpoint.directory: {self.folder}: all checkpoints that this job can resume from are damaged; "
                "restore the volume or bucket, or delete the directory to begin at step 0. "
                f"It does not begin {begin} by itself. {'; '.join(own)}"
            )

    def begin(self) -> None:
        """Remove `final.json`, because training continues."""
        self.folder.remove(FINAL)

    def finish(self, report: CheckpointReport, total_steps: int) -> None:
        """Write `final.json`, naming the checkpoint of `report`, and let other jobs write into the directory."""
        record = FinalRecord(
            step=report.step, path=report.path, time=report.time, total_steps=total_steps, job=self._writer.job
        )
        self._fence.check()
        self.folder.write_text(FINAL, record.to_json())
        # The job writes no more: the next one need not wait for the heartbeat (ADR 31).
        self._fence.release()

    def _prune(self, written: str) -> None:
        """Remove all of this job but the newest `keep`, the best, and the checkpoint that is being evaluated.

        The newest is the one just `written`: whether later ones can be read is not known, so they stay uncounted.
        """
        protected_steps = evaluation_store.protected_steps(self.folder)
        # Unreadable is not absent: a checkpoint too many is harmless.
        if protected_steps is None:
            return
        protected, newest = set(map(name_of, protected_steps)), self._keep
        for name in reversed(self._names()):
            # Retention is each job's own; others may resume from theirs.
            if name > written or not self._belongs_to_job(name):
                continue
            if newest:
                newest -= 1
            elif name not in protected:
                self.folder.remove_folder(name, RECORD)

    def _is_progress(self, name: str, found: CheckpointRecord | None) -> bool:
        """Return whether this job has written a damaged checkpoint, or may have; `found` is the one to resume from."""
        checkpoint = self._open(name)
        record = checkpoint.peek()
        if record is None:
            return (self._writer.attempt, self._writer.round) > (0, 0)  # a first attempt has written none
        return record.writer.job == self._writer.job and not (found is not None and checkpoint.is_without_files())

    def _belongs_to_job(self, name: str) -> bool:
        """Return whether this job, or one of its name that it replaces, wrote a checkpoint; False if unknown."""
        if name not in self._written_by_job:
            record = self._open(name).peek()
            if record is None:
                return False
            self._written_by_job[name] = self._writer.replaces(record.writer)
        return self._written_by_job[name]


def _flush(path: Path) -> FileRecord:
    """Return the record of a file after flushing it to storage."""
    atomic.sync(path)
    return file_record(path)


def _writer_of(checkpoint: StoredCheckpoint) -> str | None:
    """Return the UID of the job that wrote a checkpoint; None if unknown."""
    record = checkpoint.peek()
    return record.writer.job if record else None


def _version_in(text: str) -> str | None:
    """Return the version in the text of a record; None for a damaged one."""
    try:
        return CheckpointRecord.model_validate_json(text).version
    except pydantic.ValidationError:
        return None
