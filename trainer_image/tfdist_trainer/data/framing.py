"""The framing of TFRecord files, read without TensorFlow and without the records themselves.

A record is its length (8 bytes, little-endian), the masked CRC-32C of these, the data, and the masked CRC-32C of
the data (`tensorflow/core/lib/io/record_writer.h`). To count records only the 12 bytes before each are needed: their
checksum verifies the lengths, and so the count. Damaged data is detected when it is read.
"""

import gzip
import io
import mmap
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tfdist_trainer.data.object_cache import local

_MASK: Final = np.uint32(0xA282EAD8)
_HEADER: Final = struct.Struct("<QI")
FOOTER: Final = 4
"""Bytes of the checksum after the data of a record."""
AROUND: Final = _HEADER.size + FOOTER
"""Bytes of a record without its data."""
_SEARCH_BYTES: Final = 1 << 20
"""Bytes in which the next record is searched for at a time, after a damaged one."""

_Headers = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32], str | None]
"""Lengths and their checksums, and the problem after them."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Complete records in succession, possibly followed by invalid data."""

    lengths: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64), compare=False)
    """Bytes of the data of each record, [count]."""
    problem: str | None = None
    """A description of the invalid data after the records, or None."""
    start: int = 0
    """Offset of the first record in bytes."""

    @property
    def count(self) -> int:
        """Number of records."""
        return len(self.lengths)

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Offsets of the data of each record in bytes, [count]."""
        return self.start + np.cumsum(self.lengths + AROUND) - self.lengths - FOOTER

    @property
    def end(self) -> int:
        """Offset of the first byte after the records."""
        return self.start + int(np.sum(self.lengths + AROUND))


def frames(name: str, *, gzip: bool) -> Frames:
    """Return the complete records at the start of the file `name`.

    Of a plain file only the headers are read; a compressed file is decompressed.

    Raises:
        OSError: the file cannot be read.
    """
    path = local(name)
    return _valid_frames(_gzip_headers(path)) if gzip else _valid_frames(_plain_headers(path, 0))


def runs(name: str) -> Iterator[Frames]:
    """Yield the complete records of an uncompressed file up to each damaged length, and after it.

    Where the next record begins is not known after a damaged length. A search finds it: the next length with a matching
    checksum.

    Raises:
        OSError: the file cannot be read.
    """
    path = local(name)
    start: int | None = 0
    while start is not None:
        run = _valid_frames(_plain_headers(path, start), start)
        yield run
        start = None if run.problem is None else _next_header(path, run.end + 1)


def masked_crc32c(lengths: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
    """Return TFRecord's checksum of each of `lengths` as 8 little-endian bytes."""
    octets = lengths.astype("<u8").view(np.uint8).reshape(-1, 8)
    crc = np.full(len(lengths), 0xFFFFFFFF, np.uint32)
    for position in range(8):
        # All lengths at once, byte by byte.
        crc = TABLE[(crc ^ octets[:, position]) & 0xFF] ^ (crc >> np.uint32(8))
    crc ^= np.uint32(0xFFFFFFFF)
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + _MASK


def unmask(checksums: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return the CRC-32C of each of TFRecord's masked checksums (`tensorflow/core/lib/hash/crc32c.h`)."""
    rotated = checksums - _MASK
    return (rotated >> np.uint32(17)) | (rotated << np.uint32(15))


def _table() -> npt.NDArray[np.uint32]:
    """Return the remainders of all bytes by the Castagnoli polynomial, reflected."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> np.uint32(1)) ^ np.uint32(0x82F63B78), table >> np.uint32(1))
    return table


TABLE: Final = _table()


def _valid_frames(headers: _Headers, start: int = 0) -> Frames:
    """Return the records before the first of `headers` whose checksum is wrong."""
    lengths, checksums, problem = headers
    mismatches = np.flatnonzero(masked_crc32c(lengths) != checksums)
    if mismatches.size:
        lengths, problem = lengths[: mismatches[0]], "the length's checksum is wrong"
    return Frames(lengths.astype(np.int64), problem, start)


def _next_header(path: str, start: int) -> int | None:
    """Return the first offset from `start` on with a length, its checksum, and as many bytes after it; or None."""
    size = Path(path).stat().st_size
    with Path(path).open("rb") as file:
        while start + AROUND <= size:
            file.seek(start)
            octets = np.frombuffer(file.read(_SEARCH_BYTES + _HEADER.size - 1), np.uint8)
            headers = np.lib.stride_tricks.sliding_window_view(octets, _HEADER.size)
            lengths = headers[:, :8].copy().view("<u8").ravel()
            checksums = headers[:, 8:].copy().view("<u4").ravel()
            for position in np.flatnonzero(masked_crc32c(lengths) == checksums).tolist():
                if start + position + AROUND + int(lengths[position]) <= size:
                    return start + int(position)
            start += len(headers)
    return None


def _arrays(headers: list[tuple[int, int]], problem: str | None) -> _Headers:
    pairs = np.array(headers, np.uint64).reshape(-1, 2)
    return pairs[:, 0].copy(), pairs[:, 1].astype(np.uint32), problem


def _plain_headers(name: str, start: int) -> _Headers:
    """Return the lengths, their checksums, and the problem at the end, if any, of an uncompressed file from `start`."""
    size = Path(name).stat().st_size
    headers: list[tuple[int, int]] = []
    if not size:
        return _arrays(headers, None)
    position, problem = start, None
    with Path(name).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        while position < size:
            header = _HEADER.unpack_from(view, position) if position + AROUND <= size else None
            if header is None or position + AROUND + header[0] > size:
                # The length itself may be wrong; its checksum shows that.
                headers += [header] if header else []
                problem = "the last record is cut off"
                break
            headers.append(header)
            position += AROUND + header[0]
    return _cut(headers, problem)


def _gzip_headers(name: str) -> _Headers:
    """Return the same as `_plain_headers` for a gzip file."""
    headers: list[tuple[int, int]] = []
    problem = None
    try:
        with gzip.open(name) as stream, io.BufferedReader(stream, 1 << 20) as file:
            while start := file.read(_HEADER.size):
                header = _HEADER.unpack(start) if len(start) == _HEADER.size else None
                headers += [header] if header else []
                if header is None or not _skip(file, header[0] + 4):
                    problem = "the last record is cut off"
                    break
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        problem = f"not readable as GZIP: {error}"
    return _cut(headers, problem)


def _cut(headers: list[tuple[int, int]], problem: str | None) -> _Headers:
    """Drop the last header if its record is truncated, unless the header itself is invalid."""
    lengths, checksums, problem = _arrays(headers, problem)
    if problem and len(lengths) and masked_crc32c(lengths[-1:])[0] == checksums[-1]:
        return lengths[:-1], checksums[:-1], problem
    return lengths, checksums, problem


def _skip(file: "io.BufferedReader[gzip.GzipFile]", count: int) -> bool:
    """Skip `count` bytes and return whether they existed."""
    while count > 0:
        block = file.read(min(count, 1 << 20))
        if not block:
            return False
        count -= len(block)
    return True
