"""Checkpoints on disk: complete or absent, found newest first, written by the chief alone.

    <directory>/checkpoint-000000470/checkpoint.json     what it is, who wrote it, sizes and sums of its files
                                     variables.*         tf.train.Checkpoint
    <directory>/final.json                               names the last one, when training is done
    <directory>/fence.json                               who may write
    <directory>/best.json, evaluation/                   what evaluations found, see `scores`
    <directory>/set-aside-by-<uid>/checkpoint-*          of other jobs, which that job was told not to go on from

A checkpoint is written into a temporary directory, flushed, and renamed; so a name `checkpoint-*` means that
everything is there. What a disk has lost since is found by size and CRC, reported, and passed over.
This module knows files, not TensorFlow: what writes the variables is passed in.
"""

import contextlib
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pydantic

from tfdist.contract_model import ContractModel
from tfdist.contract_reports import CheckpointReport
from tfdist_trainer import atomic, log, scores
from tfdist_trainer.errors import StorageError
from tfdist_trainer.fence import Fence, Writer

RECORD: Final = "checkpoint.json"
FINAL: Final = "final.json"
VARIABLES: Final = "variables"
PREFIX: Final = "checkpoint-"
SET_ASIDE: Final = "set-aside-by-"

Save = Callable[[str], None]
"""Writes the variables under a file name prefix."""


class Position(ContractModel):
    """Where training stands, beyond the values of variables."""

    step: int
    epoch: int = 0
    """Epochs finished."""
    step_in_epoch: int = 0
    """Steps done of the epoch that is under way."""
    examples: int = 0
    """Examples seen since the start of training, by the whole gang."""
    metric_sums: tuple[float, ...] = ()
    """Sums of the metrics since the start of the epoch (`metrics.sums`)."""
    metrics: tuple[tuple[str, int], ...] = ()
    """Name and number of sums of each metric in `metric_sums`, behind the first, which is the number of examples."""
    layout: tuple[int, ...] = ()
    """Batch size, then the examples of every pipeline: only with equal ones does `step_in_epoch` name the
    same examples."""


class FileRecord(ContractModel):
    """Size in bytes and CRC-32 of one file."""

    size: int
    crc32: int


class Record(ContractModel):
    """`checkpoint.json`."""

    position: Position
    time: str
    writer: Writer
    files: dict[str, FileRecord]


class FinalRecord(ContractModel):
    """`final.json`: the last checkpoint of a finished training."""

    step: int
    path: str
    time: str
    total_steps: int
    job: str = ""
    """UID of the job that finished."""


def name_of(step: int) -> str:
    """Return the directory name of the checkpoint at `step`; names sort like steps."""
    return f"{PREFIX}{step:09d}"


class CheckpointReader:
    """Finds checkpoints under one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def newest(self, written_by: str | None = None) -> Record | None:
        """Return the newest checkpoint that is whole; damaged ones are reported and passed over.

        Args:
            written_by: UID of the job whose checkpoints alone count; None for those of all.
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
        """Return what `final.json` says of the job with this UID, or None when that has not finished training."""
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

    def told(self) -> Iterator[Record]:
        """Yield the record of each checkpoint, the oldest first; whether its files are whole is not looked at."""
        for path in reversed(list(self._paths())):
            record = glance(path)
            if record is not None:
                yield record

    def _paths(self) -> Iterator[Path]:
        yield from sorted(self.directory.glob(f"{PREFIX}*"), reverse=True)


class CheckpointWriter(CheckpointReader):
    """Writes checkpoints; only the chief has one."""

    def __init__(self, directory: Path, *, keep: int, writer: Writer) -> None:
        super().__init__(directory)
        self._keep = keep
        self._writer = writer
        self._fence = Fence(directory, writer)
        self._tag = f"{writer.attempt}-{writer.host}"

    def claim(self) -> None:
        """Make the directory, claim it, and remove what an interrupted write of an earlier attempt has left.

        Raises:
            CheckpointUnwritableError: it cannot be written, or a later attempt writes there.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._fence.claim()
            for leftover in self.directory.glob(f"{atomic.TEMPORARY_PREFIX}{PREFIX}*"):
                shutil.rmtree(leftover, ignore_errors=True)
        except OSError as error:
            raise atomic.storage_failure(error, self.directory) from error

    def write(self, position: Position, time: str, save: Save) -> CheckpointReport:
        """Write the checkpoint at `position` and remove those beyond the newest `keep`.

        Raises:
            CheckpointUnwritableError: the directory cannot be written, or a later attempt writes there.
            StorageError: the storage failed.
        """
        final = self.path_of(position.step)
        temporary = self.directory / f"{atomic.TEMPORARY_PREFIX}{final.name}-{self._tag}"
        try:
            self._fence.check()
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            save(str(temporary / VARIABLES))
            files = {path.name: _describe(path) for path in sorted(temporary.iterdir())}
            record = Record(position=position, time=time, writer=self._writer, files=files)
            atomic.write_text(temporary / RECORD, record.to_json(), tag=self._tag)
            self._fence.check()
            # A damaged one of the same step may be in the way; a whole one is replaced by an equal one.
            shutil.rmtree(final, ignore_errors=True)
            temporary.rename(final)
            atomic.sync(self.directory)
            self._prune()
        except OSError as error:
            with contextlib.suppress(OSError):
                self._fence.check()  # a successor removes what this has half written: that is no fault of the storage
            raise atomic.storage_failure(error, self.directory) from error
        return CheckpointReport(step=position.step, path=str(final), time=time)

    def set_aside(self, above: int) -> None:
        """Move checkpoints of other jobs beyond step `above` into a folder, where they are no checkpoints of this job.

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
        """Remove `final.json`: training goes on."""
        (self.directory / FINAL).unlink(missing_ok=True)

    def finish(self, report: CheckpointReport, total_steps: int) -> None:
        """Write `final.json`, naming the checkpoint of `report`."""
        final = FinalRecord(
            step=report.step, path=report.path, time=report.time, total_steps=total_steps, job=self._writer.job
        )
        try:
            self._fence.check()
            atomic.write_text(self.directory / FINAL, final.to_json(), tag=self._tag)
        except OSError as error:
            raise atomic.storage_failure(error, self.directory) from error

    def _prune(self) -> None:
        """Remove all but the newest `keep`, the best, and the one that is being evaluated."""
        spared = scores.spared(self.directory)
        if spared is None:
            return
        names = set(map(name_of, spared))
        for path in list(self._paths())[self._keep :]:
            if path.name not in names:
                # Renamed first: who reads it finds all of it, or nothing.
                gone = path.with_name(f"{atomic.TEMPORARY_PREFIX}{path.name}-gone")
                path.rename(gone)
                shutil.rmtree(gone, ignore_errors=True)


def glance(path: Path) -> Record | None:
    """Return the record of the checkpoint `path`, whose files may be damaged; None where it has none."""
    try:
        return Record.model_validate_json((path / RECORD).read_text(encoding="utf-8"))
    except (OSError, pydantic.ValidationError):
        return None


def _writer_of(path: Path) -> str | None:
    """Return the UID of the job that wrote the checkpoint `path`; None when that is unknown."""
    record = glance(path)
    return record.writer.job if record else None


def read_record(path: Path) -> Record:
    """Return the record of the checkpoint directory `path` after comparing its files with it.

    Raises:
        StorageError: the checkpoint does not exist or is damaged.
    """
    try:
        record = Record.model_validate_json((path / RECORD).read_text(encoding="utf-8"))
        for name, expected in record.files.items():
            if _describe(path / name) != expected:
                raise StorageError(f"{path}: {name} is damaged: its size or checksum is not that of {RECORD}")
    except (OSError, pydantic.ValidationError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.errors()[0]["msg"]
        raise StorageError(f"{path}: not a complete checkpoint: {reason}") from None
    return record


def _describe(path: Path) -> FileRecord:
    """Return size and CRC-32 of `path`, after flushing it to storage."""
    atomic.sync(path)
    crc, size = 0, 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            crc, size = zlib.crc32(block, crc), size + len(block)
    return FileRecord(size=size, crc32=crc)
