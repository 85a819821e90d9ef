"""The idx format of MNIST and its successors, plain or compressed by gzip.

A magic number of four bytes (two zeros, the type of the elements, the number of axes), each axis' size as a
big-endian 32-bit integer, then the elements. See the end of `yann.lecun.com/exdb/mnist`.
"""

import gzip
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Final

import numpy as np
import numpy.typing as npt

from tfdist_trainer.atomic import input_failure
from tfdist_trainer.data.columns import Array, BadRecords, DataColumn, check_rows
from tfdist_trainer.data.content import GZIP_MAGIC
from tfdist_trainer.data.object_cache import is_file, local
from tfdist_trainer.errors import DataMalformedError, DataMissingError

UINT8: Final = 0x08
"""The type code of unsigned bytes, the only one that image data sets use."""


def labels_of(name: str) -> str:
    """Return the file with the labels of the images in `name`, as MNIST names them.

    Raises:
        DataMissingError: the file does not exist.
    """
    folder, slash, base = name.rpartition("/")
    other = f"{folder}{slash}{base.replace('images', 'labels').replace('idx3', 'idx1')}"
    for candidate in (other, other.removesuffix(PurePath(other).suffix), f"{other}.gz"):
        if candidate != name and is_file(candidate):
            return candidate
    raise DataMissingError(f"{name}: there is no file {other} with its labels")


def read_columns(name: str, columns: Sequence[DataColumn], bad: BadRecords) -> dict[str, Array]:
    """Return two columns: images of the file `name`, and labels of the file next to it.

    Raises:
        DataMissingError: the file of labels does not exist.
        DataMalformedError: a file is not idx, the lengths differ, the images are not of the column's shape, or a
            label is bad and `bad` does not skip.
    """
    image, label = columns[:2]
    images, labels = read(name), read(labels_of(name))
    # MNIST's images have no axis of channels.
    if image.shape[-1:] == (1,) and images.shape[1:] == image.shape[:-1]:
        images = images[..., np.newaxis]
    if images.shape[1:] != image.shape or labels.shape != images.shape[:1]:
        raise DataMalformedError(
            f"{name}: images {list(images.shape)} and labels {list(labels.shape)}, expected images of shape "
            f"{list(image.shape)} and a label for each"
        )
    values: dict[str, Array] = {image.name: images, label.name: labels}
    return check_rows(columns, values, lambda row: f"{name}: record {row}", bad)


def read(name: str) -> npt.NDArray[np.uint8]:
    """Return the array in the file `name`.

    Raises:
        DataMissingError: the file does not exist, or may not be read.
        StorageError: it cannot be read.
        DataMalformedError: it is not an idx file of unsigned bytes, or is too short or too long.
    """
    try:
        content = Path(local(name)).read_bytes()
    except OSError as error:
        raise input_failure(error, f"cannot open {name}") from None
    if content[:2] == GZIP_MAGIC:
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise DataMalformedError(f"{name}: damaged gzip file: {error}") from None
    return parse(content, name)


def parse(content: bytes, name: str) -> npt.NDArray[np.uint8]:
    """Return the array that `content` encodes; `name` is for messages. Errors as in `read`."""
    if len(content) < 4 or content[:2] != b"\0\0":  # noqa: PLR2004  the magic number's length
        raise DataMalformedError(f"{name}: not an idx file: it starts with {content[:4].hex() or 'nothing'}")
    kind, axes = content[2], content[3]
    if kind != UINT8:
        raise DataMalformedError(f"{name}: idx elements of type 0x{kind:02x}; only unsigned bytes (0x08) are read")
    start = 4 + 4 * axes
    if len(content) < start:
        raise DataMalformedError(f"{name}: idx header of {axes} axes is cut off after {len(content)} bytes")
    shape = struct.unpack(f">{axes}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise DataMalformedError(
            f"{name}: has {len(content) - start} bytes of elements, its header requires "
            f"{' x '.join(map(str, shape))} = {math.prod(shape)}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
