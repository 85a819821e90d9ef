"""Recognizes the kind of a file by its first bytes, for the messages about files that are not of the expected format.

It is called only after a read has failed: the length of a valid TFRecord may begin like the magic number of another
format.
"""

import gzip
import zlib
from pathlib import Path
from typing import Final

from tfdist_trainer.data.framing import frames
from tfdist_trainer.data.object_cache import local

GZIP_MAGIC: Final = b"\x1f\x8b"
_HEAD: Final = 64
_MAGIC: Final = (
    (GZIP_MAGIC, "GZIP"),
    (b"x\x01", "ZLIB"),
    (b"x\x9c", "ZLIB"),
    (b"x\xda", "ZLIB"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"\x28\xb5\x2f\xfd", "Zstandard"),
    (b"PK\x03\x04", "ZIP or .npz"),
    (b"PAR1", "Parquet"),
    (b"\x89HDF", "HDF5"),
    (b"\x89PNG", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF8", "GIF"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
GIT_LFS: Final = "Git LFS pointer"
_GIT_LFS_MAGIC: Final = b"version https://git-lfs"
_IMAGES: Final = frozenset({"PNG", "JPEG", "GIF"})
_PRINTABLE: Final = frozenset({*range(0x20, 0x7F), *b"\t\r\n"})


def kind_of(content: bytes) -> str | None:
    """Return the kind of file that begins with `content`, or None if that is not known."""
    return next((kind for magic, kind in _MAGIC if content.startswith(magic)), None)


def kind_for_text(content: bytes) -> str | None:
    """Return the kind of file that begins with `content`, or None if it may be text: the others have zero bytes."""
    if content.startswith(_GIT_LFS_MAGIC):
        return GIT_LFS
    return kind_of(content) if b"\0" in content else None


def image_kind(content: bytes) -> str | None:
    """Return the format of the encoded image `content`, or None if it is not an image."""
    kind = kind_of(content)
    return kind if kind in _IMAGES else None


def head(name: str) -> bytes:
    """Return the first bytes of the file `name`.

    Raises:
        OSError: the file cannot be read.
    """
    with Path(local(name)).open("rb") as file:
        return file.read(_HEAD)


def tfrecord_hint(name: str, *, compressed: bool) -> str:
    """Return the likely cause and the remedy for the file `name`, which has no TFRecord at its start; or nothing.

    Args:
        name: the file.
        compressed: whether it was read as a GZIP file.
    """
    try:
        start = head(name)
        if not compressed:
            return _plain_hint(start)
        return _decompressed_hint(name) if start.startswith(GZIP_MAGIC) else _uncompressed_hint(name, start)
    except (OSError, EOFError, zlib.error):
        return ""


def _plain_hint(start: bytes) -> str:
    kind = kind_of(start)
    if start.startswith(_GIT_LFS_MAGIC):
        return f"; it is a {GIT_LFS}: fetch the file with git lfs pull"
    if kind == "GZIP":
        return "; it begins like a GZIP file: set data.compression: GZIP, or give it a name that ends in .gz"
    if kind == "ZLIB":
        return "; it begins like a ZLIB file, which is not supported: write it uncompressed or with GZIP"
    if kind is None and len(start) >= _HEAD and _PRINTABLE.issuperset(start):
        # By the first line alone: texts in a CSV file may have tabs.
        kind = "TSV, set data.format: tsv" if b"\t" in start.partition(b"\n")[0] else "CSV, set data.format: csv"
        kind = "JSON lines, set data.format: jsonl" if start.startswith(b"{") else kind
        return f"; it begins like a text file: if it is {kind}"
    return f"; it begins like a {kind} file: set data.format, or convert it to TFRecord" if kind else ""


def _uncompressed_hint(name: str, start: bytes) -> str:
    parsed = frames(name, gzip=False)
    if start and (parsed.count or parsed.problem is None):
        return "; it is not compressed: remove .gz from its name, or set data.compression: None"
    return _plain_hint(start)


def _decompressed_hint(name: str) -> str:
    with gzip.open(local(name)) as file:
        kind = kind_of(file.read(_HEAD))
    return f"; its decompressed content begins like a {kind} file" if kind else ""
