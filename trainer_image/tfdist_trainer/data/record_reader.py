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

from tfdist_trainer.data import tfrecord
from tfdist_trainer.data.checksums import combined_crc32c
from tfdist_trainer.data.framing import AROUND, FOOTER, unmasked
from tfdist_trainer.data.object_cache import local

_MAX_OPEN: Final = 512
"""Number of files that stay open."""

Indices = npt.NDArray[np.int64]


class RecordReader:
    """The records of all `files`, numbered in the order of the files. May be used by several threads at a time."""

    def __init__(self, files: Sequence[str]) -> None:
        """Read the headers of all records.

        Raises:
            DataMalformedError: a file is not TFRecord, or is truncated.
        """
        self._files = tuple(files)
        lengths = [tfrecord.lengths(name, gzip=False).astype(np.int64) for name in files]
        starts = [np.cumsum(sizes + AROUND) - sizes - FOOTER for sizes in lengths]
        self._ends = np.cumsum([len(sizes) for sizes in lengths], dtype=np.int64)
        self._lengths = np.concatenate([np.empty(0, np.int64), *lengths])
        self._starts = np.concatenate([np.empty(0, np.int64), *starts])
        self._open: dict[int, int] = {}

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self._starts)

    @property
    def mean_bytes(self) -> int:
        """Mean size of a record in bytes, rounded down; 0 if there are none."""
        return int(self._lengths.mean()) if self.count else 0

    def read(self, indices: Indices) -> npt.NDArray[np.object_]:
        """Return the records with `indices`, [n], as bytes, [n].

        They are read in the order of the files, so that the storage sees ascending offsets.

        Raises:
            ValueError: a file cannot be read any more, or a record does not have its checksum.
        """
        order = np.argsort(indices)
        found = np.empty(len(indices), object)
        files = np.searchsorted(self._ends, indices[order], side="right")
        borders = np.flatnonzero(np.diff(files, prepend=-1, append=-1)).tolist()
        for first, end in pairwise(borders):
            places = order[first:end]
            found[places] = self._read_file(int(files[first]), indices[places])
        _verify(found)
        for place, record in enumerate(found):
            found[place] = record[:-FOOTER]
        return found

    def _read_file(self, file: int, indices: Indices) -> npt.NDArray[np.object_]:
        """Return the records of one file, each with the checksum that follows it."""
        found = np.empty(len(indices), object)
        sizes, starts = (self._lengths[indices] + FOOTER).tolist(), self._starts[indices].tolist()
        try:
            Path(
                local(self._files[file])
            ).stat()  # an open file can be read after it is deleted, and is missing at a restart
            with self._opened(file) as descriptor:
                for place, (size, start) in enumerate(zip(sizes, starts, strict=True)):
                    found[place] = os.pread(descriptor, size, start)
        except OSError as error:
            raise ValueError(f"{self._files[file]}: cannot be read any more: {error.strerror}") from error
        if any(len(record) < size for record, size in zip(found, sizes, strict=True)):
            raise ValueError(f"{self._files[file]}: is shorter than when its records were counted")
        return found

    @contextmanager
    def _opened(self, file: int) -> Iterator[int]:
        """Give the descriptor of a file, which stays open unless too many are."""
        descriptor = self._open.get(file)
        if descriptor is not None:
            yield descriptor
            return
        descriptor = os.open(local(self._files[file]), os.O_RDONLY)
        # Another thread may have opened the file in the meantime.
        kept = len(self._open) < _MAX_OPEN and self._open.setdefault(file, descriptor) == descriptor
        try:
            yield descriptor
        finally:
            if not kept:
                os.close(descriptor)


def _verify(records: npt.NDArray[np.object_]) -> None:
    """Raise `ValueError` if one of `records`, each followed by its checksum, does not have it."""
    octets = [np.frombuffer(record, np.uint8) for record in records]
    stored = np.frombuffer(b"".join(record[-FOOTER:] for record in records), "<u4")
    expected = int(np.bitwise_xor.reduce(unmasked(stored), initial=np.uint32(0)))
    if combined_crc32c([record[:-FOOTER] for record in octets]) != expected:
        raise ValueError("the checksum of a record is wrong")
