"""One checkpoint, in a file system or an object store: its record, and its files checked against the record.

    <checkpoint>/checkpoint.json     step, writer, and the size and checksum of each file
                /variables.*         tf.train.Checkpoint, or the arrays of a script

In an object store the files are in a folder that `checkpoint.json` names, so that a checkpoint is replaced by one
request. This module does not import TensorFlow.
"""

import zlib
from pathlib import Path
from typing import Final

import pydantic

from tfdist.contract_model import ContractModel
from tfdist_trainer import atomic
from tfdist_trainer.fence import Writer
from tfdist_trainer.storage.folder import DamagedError, Fetched, StorageFolder
from tfdist_trainer.storage.locations import Location, open_folder

RECORD: Final = "checkpoint.json"
VARIABLES: Final = "variables"


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
    sharding_signature: tuple[int, ...] = ()
    """Batch size, number of replicas, then the examples of each input pipeline, and a number for their order. Only if
    they are equal does `step_in_epoch` name the same examples, see `resume`."""

    @property
    def examples_in_epoch(self) -> int:
        """Examples of the current epoch that all replicas have used: the first sum; exact up to 2**53."""
        return round(self.metric_sums[0]) if self.metric_sums else 0


class FileRecord(ContractModel):
    """Size in bytes and CRC-32 of one file."""

    size: int
    crc32: int


class CheckpointRecord(ContractModel):
    """`checkpoint.json`."""

    cursor: DataCursor
    time: str
    writer: Writer
    files: dict[str, FileRecord]
    version: str | None = None
    """Name of the folder of the files in an object store; None in a file system, where they are in the same one."""


class StoredCheckpoint:
    """A checkpoint, which need not exist. `str` of it is its path or URL.

    The local copy of its files, if there is one, is deleted with this object.
    """

    def __init__(self, folder: StorageFolder) -> None:
        self.folder = folder
        self._fetched: tuple[CheckpointRecord, Fetched] | None = None

    def __str__(self) -> str:
        return str(self.folder)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return str(self.folder).rpartition("/")[2]

    def peek(self) -> CheckpointRecord | None:
        """Return its record without checking its files; None if it is absent or damaged. Raises as `StorageFolder`."""
        try:
            return self._read()
        except DamagedError:
            return None

    def exists(self) -> bool:
        """Return whether it has a record, which may be damaged."""
        return self.folder.read_text(RECORD) is not None

    def record(self) -> CheckpointRecord:
        """Return its record after checking its files against it.

        Raises:
            DamagedError: it does not exist, or a file of its record is absent or has another size or checksum.
            StorageError: the storage failed.
        """
        record = self._read()
        try:
            fetched = self._fetch(record)
        except FileNotFoundError as error:
            raise DamagedError(f"{self}: not a complete checkpoint: {error.strerror}") from None
        for name, expected in record.files.items():
            if self._file_record(fetched.path / name) != expected:
                raise DamagedError(f"{self}: {name} is damaged: its size or checksum differs from {RECORD}")
        self._fetched = record, fetched
        return record

    def is_without_files(self) -> bool:
        """Return whether there is a record, but none of its files.

        A replaced writer leaves that in an object store, if it writes the record when its successor has removed the
        files of an unfinished write.
        """
        record = self.peek()
        return record is not None and record.version is not None and not self.folder.folder(record.version).names()

    def path(self) -> Path:
        """Return the folder of this machine that has its files, not checked in a file system; errors as of `record`."""
        if self.folder.local_path is not None:
            return self.folder.local_path
        if self._fetched is None:
            self.record()
        assert self._fetched is not None  # noqa: S101  for the type checker
        return self._fetched[1].path

    def _fetch(self, record: CheckpointRecord) -> Fetched:
        # The local copy is as valid as the record that it was checked against.
        if self._fetched is not None and self._fetched[0] == record:
            return self._fetched[1]
        self._fetched = None
        return self.folder.fetch(record.version, {name: each.size for name, each in record.files.items()})

    def _file_record(self, path: Path) -> FileRecord:
        try:
            return file_record(path)
        # Absent is damaged; any other error may be a storage that fails for a moment (ADR 46).
        except atomic.ABSENT as error:
            raise DamagedError(f"{self}: not a complete checkpoint: {path.name}: {error.strerror}") from None
        except OSError as error:
            raise atomic.read_failure(error, path) from error

    def _read(self) -> CheckpointRecord:
        text = self.folder.read_text(RECORD)
        if text is None:
            raise DamagedError(f"{self}: not a complete checkpoint: it has no {RECORD}")
        try:
            return CheckpointRecord.model_validate_json(text)
        except pydantic.ValidationError as error:
            raise DamagedError(f"{self}: not a complete checkpoint: {error.errors()[0]['msg']}") from None


def stored_checkpoint(where: Location | StoredCheckpoint) -> StoredCheckpoint:
    """Return the checkpoint at a path or URL."""
    return where if isinstance(where, StoredCheckpoint) else StoredCheckpoint(open_folder(where))


def read_record(where: Location | StoredCheckpoint) -> CheckpointRecord:
    """Return the record of the checkpoint at a path or URL; as `StoredCheckpoint.record`."""
    return stored_checkpoint(where).record()


def file_record(path: Path) -> FileRecord:
    """Return size and CRC-32 of `path`."""
    crc, size = 0, 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            crc, size = zlib.crc32(block, crc), size + len(block)
    return FileRecord(size=size, crc32=crc)
