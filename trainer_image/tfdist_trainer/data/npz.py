"""Named arrays in `.npz` files, one for each column, with the examples on the first axis. Needs only NumPy."""

import zipfile
import zlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tfdist_trainer.atomic import reject_storage_error
from tfdist_trainer.data.columns import Array, BadRecords, DataColumn, check_rows
from tfdist_trainer.data.object_cache import local
from tfdist_trainer.errors import ColumnAbsentError, DataMalformedError

_UNREADABLE: Final = (ValueError, OSError, EOFError, AttributeError, TypeError, zipfile.BadZipFile, zlib.error)
_KINDS: Final = {"uint8": "u", "int64": "iub", "float32": "fiub", "string": "USiu"}
"""NumPy kinds (`dtype.kind`) in which a column may be stored."""


def read(name: str, columns: Sequence[DataColumn], bad: BadRecords) -> dict[str, Array]:
    """Return the columns of the file `name`.

    Raises:
        DataMalformedError: the file is not `.npz`, lacks an array, an array is not of its column's type and shape,
            or a value is bad and `bad` does not skip. `ColumnAbsentError` if it lacks an array.
    """
    values = _load(name, columns)
    for column in columns:
        values[column.name] = _check_array(name, column, values[column.name])
    sizes = {column.name: len(values[column.name]) for column in columns}
    if len(set(sizes.values())) > 1:
        raise DataMalformedError(f"{name}: its arrays are of different lengths: {sizes}")
    return check_rows(columns, values, lambda row: f"{name}: record {row}", bad)


def save(name: str, **arrays: npt.NDArray[Any]) -> None:
    """Write one `.npz` file that `read` reads."""
    np.savez_compressed(name, allow_pickle=False, **arrays)


def _load(name: str, columns: Sequence[DataColumn]) -> dict[str, Array]:
    try:
        # Pickled objects would run code of the file.
        with np.load(local(name), allow_pickle=False) as arrays:
            missing = sorted({column.name for column in columns} - set(arrays.files))
            if missing:
                raise ColumnAbsentError(f"{name}: has no array {missing[0]!r}; it has {sorted(arrays.files)}")
            return {column.name: arrays[column.name] for column in columns}
    except _UNREADABLE as error:
        reject_storage_error(error, name)
        raise DataMalformedError(f"{name}: not a readable .npz file: {error}") from None


def _check_array(name: str, column: DataColumn, values: Array) -> Array:
    """Return `values` in the column's shape; a last axis of size 1 may be absent in the file."""
    # Images of one channel, and single numbers, are often stored without that axis.
    if column.shape[-1:] == (1,) and values.shape[1:] == column.shape[:-1]:
        values = values[..., np.newaxis]
    if values.dtype.kind not in _KINDS[column.kind] or values.ndim == 0 or values.shape[1:] != column.shape:
        raise DataMalformedError(
            f"{name}: array {column.name!r} is {values.dtype}{list(values.shape)}, "
            f"expected {column.kind}[examples{''.join(f', {size}' for size in column.shape)}]"
        )
    if column.kind == "uint8" and values.dtype != np.uint8:
        raise DataMalformedError(f"{name}: array {column.name!r} is {values.dtype}, expected uint8")
    if column.kind == "string":
        return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values.astype(str)
    return values
