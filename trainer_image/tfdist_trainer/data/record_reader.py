"""Reads records of uncompressed TFRecord files by index, with their checksums verified.

The offsets follow from the lengths in the headers (`framing`). TensorFlow's random reader of records is not used: after
a seek backwards it fills a buffer again, which takes about a millisecond for each record.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tfdist_trainer.data.checksums import combined_crc32c
from tfdist_trainer.data.framing import FOOTER, Frames, unmask
from tfdist_trainer.data.object_cache import local

_MAX_OPEN: Final = 512
"""Number of files that stay open."""
_READ_RECORDS: Final = 1024
_READ_BYTES: Final = 4 << 20
"""Limits of the records that are read at a time."""

Indices = npt.NDArray[np.int64]


class RecordReader:
    """The records of all `files`, numbered in the order of the files. May be used by several threads at a time."""

    def __init__(self, files: Sequence[str], frames: Sequence[Sequence[Frames]]) -> None:
        """Number the records of `files`, which `frames` has for each file."""
        self._files = tuple(files)
        self._ends = np.cumsum([sum(run.count for run in runs) for runs in frames], dtype=np.int64)
        self._lengths = np.concatenate([np.empty(0, np.int64), *(run.lengths for runs in frames for run in runs)])
        self._starts = np.concatenate([np.empty(0, np.int64), *(run.offsets for runs in frames for run in runs)])
        self._open: dict[int, int] = {}

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self._starts)

    @property
    def batch(self) -> int:
        """Number of records to read at a time, so that many records share the cost of a call."""
        mean = int(self._lengths.mean()) if self.count else 0
        return max(1, min(_READ_RECORDS, _READ_BYTES // max(1, mean)))

    def close(self) -> None:
        """Close the files."""
        while self._open:
            os.close(self._open.popitem()[1])

    def read(self, indices: Indices) -> npt.NDArray[np.object_]:
        """Return the records with `indices`, [n], as bytes, [n].

        They are read in the order of the files, so that the storage sees ascending offsets.

        Raises:
            ValueError: a file cannot be read any more, or a record does not have its checksum.
        """
        records = self._with_checksums(indices)
        if not _is_intact(records):
            raise ValueError("the checksum of a record is wrong")
        return _data(records)

    def read_undamaged(self, indices: Indices) -> npt.NDArray[np.object_]:
        """Return the records with `indices`, [n], and None for each whose checksum is wrong.

        Raises:
            ValueError: a file cannot be read any more.
        """
        records = self._with_checksums(indices)
        # Checked together first: one by one only if something is wrong.
        damaged = (
            [] if _is_intact(records) else [index for index in range(len(records)) if not _is_intact(records[[index]])]
        )
        records = _data(records)
        records[damaged] = None
        return records

    def _with_checksums(self, indices: Indices) -> npt.NDArray[np.object_]:
        """Return the records with `indices`, [n], each with the checksum that follows it."""
        # Ascending offsets: a disk, or network storage, reads them in one direction.
        order = np.argsort(indices)
        records = np.empty(len(indices), object)
        files = np.searchsorted(self._ends, indices[order], side="right")
        boundaries = np.flatnonzero(np.diff(files, prepend=-1, append=-1)).tolist()
        for first, end in pairwise(boundaries):
            positions = order[first:end]
            records[positions] = self._read_file(int(files[first]), indices[positions])
        return records

    def _read_file(self, file: int, indices: Indices) -> npt.NDArray[np.object_]:
        """Return the records of one file, each with the checksum that follows it."""
        records = np.empty(len(indices), object)
        sizes, starts = (self._lengths[indices] + FOOTER).tolist(), self._starts[indices].tolist()
        try:
            Path(
                local(self._files[file])
            ).stat()  # an open file can be read after it is deleted, and is missing at a restart
            # Opened once: to open each file again would be a request to network storage for nearly every record (ADR
            # 40).
            with self._descriptor(file) as descriptor:
                for position, (size, start) in enumerate(zip(sizes, starts, strict=True)):
                    records[position] = os.pread(descriptor, size, start)
        except OSError as error:
            raise ValueError(f"{self._files[file]}: cannot be read any more: {error.strerror}") from error
        if any(len(record) < size for record, size in zip(records, sizes, strict=True)):
            raise ValueError(f"{self._files[file]}: is shorter than when its records were counted")
        return records

    @contextmanager
    def _descriptor(self, file: int) -> Iterator[int]:
        """Yield the descriptor of a file, which stays open unless too many files are open."""
        descriptor = self._open.get(file)
        if descriptor is not None:
            yield descriptor
            return
        descriptor = os.open(local(self._files[file]), os.O_RDONLY)
        # Another thread may have opened the file in the meantime.
        is_cached = len(self._open) < _MAX_OPEN and self._open.setdefault(file, descriptor) == descriptor
        try:
            yield descriptor
        finally:
            if not is_cached:
                os.close(descriptor)


def _is_intact(records: npt.NDArray[np.object_]) -> bool:
    """Return whether each of `records` has the checksum that follows it."""
    octets = [np.frombuffer(record, np.uint8) for record in records]
    stored = np.frombuffer(b"".join(record[-FOOTER:] for record in records), "<u4")
    expected = int(np.bitwise_xor.reduce(unmask(stored), initial=np.uint32(0)))
    return combined_crc32c([record[:-FOOTER] for record in octets]) == expected


def _data(records: npt.NDArray[np.object_]) -> npt.NDArray[np.object_]:
    """Return `records` without the checksums that follow them."""
    contents = np.empty(len(records), object)
    for position, record in enumerate(records):
        contents[position] = record[:-FOOTER]
    return contents
