"""Checkpoints on disk: complete or absent, read newest first, written only by the chief.

    <directory>/checkpoint-000000470/checkpoint.json     step, writer, and the size and checksum of each file
                                     variables.*         tf.train.Checkpoint
    <directory>/final.json                               the last checkpoint of a finished training
    <directory>/fence.json                               the job and attempt that may write
    <directory>/writer-<uid>.heartbeat                   changes while that job runs, see `writer_heartbeat`
    <directory>/best.json, evaluation/                   results of evaluations, see `evaluation_store`
    <directory>/set-aside-by-<uid>/checkpoint-*          checkpoints of other jobs that job <uid> was not to resume from

A checkpoint is written into a temporary directory, flushed, and renamed; so a directory `checkpoint-*` is complete.
Damage since then is detected by size and CRC, reported, and the checkpoint is skipped.
This module does not import TensorFlow: the function that writes the variables is an argument.
"""

import contextlib
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pydantic
from pydantic import Field

from tfdist.contract_model import ContractModel
from tfdist.contract_reports import CheckpointReport
from tfdist_trainer import atomic, evaluation_store, log
from tfdist_trainer.errors import StorageError
from tfdist_trainer.fence import Fence, Writer

RECORD: Final = "checkpoint.json"
FINAL: Final = "final.json"
VARIABLES: Final = "variables"
PREFIX: Final = "checkpoint-"
SET_ASIDE: Final = "set-aside-by-"

WriteVariables = Callable[[str], None]
"""Writes the variables to files whose names start with the given prefix."""


class DataCursor(ContractModel):
    """The progress of training through its data: which examples come next, and the metrics so far."""

    step: int
    epoch: int = 0
    """Finished epochs."""
    step_in_epoch: int = 0
    """Finished steps of the current epoch."""
    examples: int = 0
    """Examples that all replicas have seen since the start of training."""
    metric_sums: tuple[float, ...] = ()
    """Sums of the metrics since the start of the epoch (`metrics.collection`)."""
    metrics: tuple[tuple[str, int], ...] = ()
    """Name and number of sums of each metric in `metric_sums`, after the first sum, the number of examples."""
    sharding_signature: tuple[int, ...] = Field(default=(), alias="layout")
    """Batch size, number of replicas, then the examples of each input pipeline. Only if they are equal does
    `step_in_epoch` name the same examples, see `resume`. The name on disk is `layout`."""

    @property
    def examples_in_epoch(self) -> int:
        """Examples of the current epoch that all replicas have used: the first sum; exact up to 2**53."""
        return round(self.metric_sums[0]) if self.metric_sums else 0


class FileRecord(ContractModel):
    """Size in bytes and CRC-32 of one file."""

    size: int
    crc32: int


class Record(ContractModel):
    """`checkpoint.json`."""

    cursor: DataCursor = Field(alias="position")
    """The name on disk is `position`."""
    time: str
    writer: Writer
    files: dict[str, FileRecord]


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
    """Finds checkpoints under one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def newest(self, written_by: str | None = None) -> Record | None:
        """Return the newest complete checkpoint; damaged ones are reported and skipped.

        Args:
            written_by: UID of a job, to consider only its checkpoints; None for those of all jobs.
        """
        for path in self._paths():
            try:
                record = read_record(path)
            except StorageError as error:
                log.event("checkpoint-damaged", message=str(error))
                continue
            if written_by in {None, record.writer.job}:
                return record
        return None

    def final(self, job: str) -> FinalRecord | None:
        """Return `final.json` of the job with this UID; None if that job has not finished training."""
        try:
            found = FinalRecord.model_validate_json((self.directory / FINAL).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, pydantic.ValidationError) as error:
            raise StorageError(f"{self.directory / FINAL}: cannot be read: {error}") from None
        return found if found.job == job else None

    def path_of(self, step: int) -> Path:
        """Return the path of the checkpoint at `step`, which need not exist."""
        return self.directory / name_of(step)

    def has(self, step: int, written_at: str) -> bool:
        """Return whether the checkpoint at `step` exists, and was not replaced since it was written at that time."""
        record = peek(self.path_of(step))
        return record is not None and record.time == written_at

    def records(self) -> Iterator[Record]:
        """Yield the record of each checkpoint, oldest first, without checking its files."""
        for path in reversed(list(self._paths())):
            record = peek(path)
            if record is not None:
                yield record

    def _paths(self) -> Iterator[Path]:
        yield from sorted(self.directory.glob(f"{PREFIX}*"), reverse=True)


class CheckpointWriter(CheckpointReader):
    """Writes checkpoints; only the chief has a writer."""

    def __init__(self, directory: Path, *, keep: int, writer: Writer) -> None:
        super().__init__(directory)
        self._keep = keep
        self._writer = writer
        self._fence = Fence(directory, writer)
        self._tag = f"{writer.attempt}-{writer.host}"

    def claim(self) -> None:
        """Create and claim the directory, and remove the files of an interrupted write of an earlier attempt.

        Raises:
            CheckpointUnwritableError: the directory cannot be written, or a later attempt has claimed it.
            ConfigurationError: another job writes there.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._fence.claim()
            for leftover in self.directory.glob(f"{atomic.TEMPORARY_PREFIX}{PREFIX}*"):
                shutil.rmtree(leftover, ignore_errors=True)
        except OSError as error:
            raise atomic.storage_failure(error, self.directory) from error

    def write(self, cursor: DataCursor, time: str, save: WriteVariables) -> CheckpointReport:
        """Write the checkpoint at `cursor` and remove those beyond the newest `keep`.

        Raises:
            CheckpointUnwritableError: the directory cannot be written, or a later attempt has claimed it.
            StorageError: the storage failed.
        """
        final = self.path_of(cursor.step)
        temporary = self.directory / f"{atomic.TEMPORARY_PREFIX}{final.name}-{self._tag}"
        try:
            self._fence.check()
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            save(str(temporary / VARIABLES))
            files = {path.name: _file_record(path) for path in sorted(temporary.iterdir())}
            record = Record(cursor=cursor, time=time, writer=self._writer, files=files)
            atomic.write_text(temporary / RECORD, record.to_json(), tag=self._tag)
            self._fence.check()
            # A damaged checkpoint of the same step may exist; a complete one is replaced by an equal one.
            shutil.rmtree(final, ignore_errors=True)
            temporary.rename(final)
            atomic.sync(self.directory)
            self._prune()
        except OSError as error:
            with contextlib.suppress(OSError):
                self._fence.check()  # a successor removes partial files: that is not a failure of the storage
            raise atomic.storage_failure(error, self.directory) from error
        return CheckpointReport(step=cursor.step, path=str(final), time=time)

    def set_aside(self, above: int) -> None:
        """Move checkpoints of other jobs after step `above` into a folder, where they do not count for this job.

        Raises:
            CheckpointUnwritableError: the directory cannot be written.
        """
        folder = self.directory / f"{SET_ASIDE}{self._writer.job}"
        try:
            for path in self._paths():
                if path.name <= name_of(above) or _writer_of(path) == self._writer.job:
                    continue
                folder.mkdir(exist_ok=True)
                shutil.rmtree(folder / path.name, ignore_errors=True)
                path.rename(folder / path.name)
                log.event("checkpoint-set-aside", path=folder / path.name)
        except OSError as error:
            raise atomic.storage_failure(error, self.directory) from error

    def begin(self) -> None:
        """Remove `final.json`, because training continues."""
        (self.directory / FINAL).unlink(missing_ok=True)

    def finish(self, report: CheckpointReport, total_steps: int) -> None:
        """Write `final.json`, naming the checkpoint of `report`, and let other jobs write into the directory."""
        final = FinalRecord(
            step=report.step, path=report.path, time=report.time, total_steps=total_steps, job=self._writer.job
        )
        try:
            self._fence.check()
            atomic.write_text(self.directory / FINAL, final.to_json(), tag=self._tag)
            self._fence.release()
        except OSError as error:
            raise atomic.storage_failure(error, self.directory) from error

    def _prune(self) -> None:
        """Remove all but the newest `keep`, the best, and the checkpoint that is being evaluated."""
        protected_steps = evaluation_store.protected_steps(self.directory)
        if protected_steps is None:
            return
        names = set(map(name_of, protected_steps))
        for path in list(self._paths())[self._keep :]:
            if path.name not in names:
                # Renamed first, so that a reader finds all of it or nothing.
                removed = path.with_name(f"{atomic.TEMPORARY_PREFIX}{path.name}-gone")
                path.rename(removed)
                shutil.rmtree(removed, ignore_errors=True)


def peek(path: Path) -> Record | None:
    """Return the record of the checkpoint `path` without checking its files; None if it has none."""
    try:
        return Record.model_validate_json((path / RECORD).read_text(encoding="utf-8"))
    except (OSError, pydantic.ValidationError):
        return None


def _writer_of(path: Path) -> str | None:
    """Return the UID of the job that wrote the checkpoint `path`; None if unknown."""
    record = peek(path)
    return record.writer.job if record else None


def read_record(path: Path) -> Record:
    """Return the record of the checkpoint directory `path` after checking its files against it.

    Raises:
        StorageError: the checkpoint does not exist or is damaged.
    """
    try:
        record = Record.model_validate_json((path / RECORD).read_text(encoding="utf-8"))
        for name, expected in record.files.items():
            if _file_record(path / name) != expected:
                raise StorageError(f"{path}: {name} is damaged: its size or checksum is not that of {RECORD}")
    except (OSError, pydantic.ValidationError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.errors()[0]["msg"]
        raise StorageError(f"{path}: not a complete checkpoint: {reason}") from None
    return record


def _file_record(path: Path) -> FileRecord:
    """Return size and CRC-32 of `path` after flushing it to storage."""
    atomic.sync(path)
    crc, size = 0, 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            crc, size = zlib.crc32(block, crc), size + len(block)
    return FileRecord(size=size, crc32=crc)
