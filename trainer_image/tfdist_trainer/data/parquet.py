"""Columns of Parquet files, read by pyarrow one row group at a time.

pyarrow is optional: its wheel has 55 MB and takes 190 MB in an image.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

from tfdist_trainer.atomic import reject_storage_error
from tfdist_trainer.data.columns import Array, BadRecords, Converted, DataColumn, check_converted
from tfdist_trainer.data.object_cache import local
from tfdist_trainer.data.python_values import convert
from tfdist_trainer.errors import (
    ColumnAbsentError,
    ColumnAmbiguousError,
    ConfigurationError,
    DataMalformedError,
    one_line,
)

_MAX_NAMES: Final = 50
_LARGEST: Final = np.iinfo(np.int64).max


def read(name: str, columns: Sequence[DataColumn], bad: BadRecords) -> dict[str, Array]:
    """Return the given columns of the file `name`; its other columns are not read.

    Raises:
        DataMalformedError: the file is not Parquet, a column is of another type, or a row group or row is bad and `bad`
            does not skip.
        ColumnAbsentError: it lacks a column; `ColumnAmbiguousError` if it has one several times.
        ConfigurationError: pyarrow is not installed.
    """
    arrow, parquet = _pyarrow(name)
    parts = {column.name: [column.empty()] for column in columns}
    try:
        # pyarrow does not verify them by default.
        with parquet.ParquetFile(local(name), page_checksum_verification=True) as file:
            _check_schema(name, file.schema_arrow, columns, arrow)
            # One row group at a time, and what is read of it is the columns alone: the file may be larger than the
            # memory.
            for group in range(file.num_row_groups):
                for key, array in _read_group(name, file, group, columns, bad, arrow).items():
                    parts[key].append(array)
    except (arrow.ArrowException, OSError) as error:
        reject_storage_error(error, name)
        raise DataMalformedError(f"{name}: not a readable Parquet file: {one_line(str(error))}") from None
    return {key: np.concatenate(arrays) for key, arrays in parts.items()}


def _pyarrow(name: str) -> tuple[Any, Any]:
    """Return the modules `pyarrow` and `pyarrow.parquet`."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise ConfigurationError(
            f"training.config.data: {name} is read by pyarrow, which is not installed: install pyarrow in the image, "
            "or convert the file to another format"
        ) from None


def _check_schema(name: str, schema: Any, columns: Sequence[DataColumn], arrow: Any) -> None:
    for column in columns:
        if column.name not in schema.names:
            raise ColumnAbsentError(f"{name}: has no column {column.name!r}; it has {schema.names[:_MAX_NAMES]}")
        if schema.names.count(column.name) > 1:
            raise ColumnAmbiguousError(f"{name}: has several columns {column.name!r}; rename or remove the others")
        arrow_type = schema.field(column.name).type
        if not _is_of(arrow_type, column, arrow.types):
            expected = {"string": "string or integer", "int64": "integer"}.get(column.kind, "integer or floating point")
            of_shape = f"lists of the shape {list(column.shape)} of " if column.shape else ""
            raise DataMalformedError(f"{name}: column {column.name!r} is {arrow_type}, expected {of_shape}{expected}")


def _is_of(arrow_type: Any, column: DataColumn, types: Any) -> bool:
    """Return whether `column` may have values of `arrow_type`."""
    if types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    if column.shape:
        if not _is_list(arrow_type, types):
            return False
        while _is_list(arrow_type, types):
            arrow_type = arrow_type.value_type
    if types.is_null(arrow_type) or types.is_integer(arrow_type):
        return True
    if column.kind == "string":
        return any(test(arrow_type) for test in (types.is_string, types.is_large_string, types.is_binary))
    return bool(types.is_boolean(arrow_type) or types.is_floating(arrow_type))


def _is_list(arrow_type: Any, types: Any) -> bool:
    return bool(types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type))


def _read_group(
    name: str, file: Any, group: int, columns: Sequence[DataColumn], bad: BadRecords, arrow: Any
) -> dict[str, Array]:
    """Return the columns of the row group `group` of `file`; empty ones if it is damaged and skipped."""
    where = f"{name}: row group {group}"
    try:
        table = file.read_row_group(group, columns=[column.name for column in columns])
    except (arrow.ArrowException, OSError) as error:
        reject_storage_error(error, where)
        rows = file.metadata.row_group(group).num_rows
        bad.report(where, f"its {rows} rows are not readable: {one_line(str(error))}", rows)
        return {column.name: column.empty() for column in columns}
    converted = {column.name: _convert_column(table.column(column.name), column, arrow) for column in columns}
    return check_converted(columns, converted, lambda row: f"{where}, row {row}", bad)


def _convert_column(array: Any, column: DataColumn, arrow: Any) -> Converted:
    if (values := _as_numpy(array, column, arrow.types)) is not None:
        return Converted(values, {})
    undecodable: dict[int, str] = {}
    objects = array.to_pylist()
    for row, value in enumerate(objects):
        if isinstance(value, bytes):
            try:
                objects[row] = value.decode()
            except UnicodeDecodeError as error:
                undecodable[row] = f"is not UTF-8 from byte {error.start}"
    values, problems = convert(objects, column)
    missing = {row: "is missing; it is null" for row, value in enumerate(objects) if value is None}
    return Converted(values, {**problems, **missing, **undecodable})


def _as_numpy(array: Any, column: DataColumn, types: Any) -> Array | None:
    """Return the values of `array` converted at once; None if they are strings, or have to be checked one by one."""
    # Values that need a check each.
    if column.kind in {"string", "uint8"} or array.null_count or types.is_dictionary(array.type):
        return None
    flat, leaf = array.combine_chunks(), array.type
    for size in column.shape:
        if not types.is_fixed_size_list(leaf) or leaf.list_size != size:
            return None
        flat, leaf = flat.flatten(), leaf.value_type
    if _is_list(leaf, types) or flat.null_count or types.is_null(leaf):
        return None
    values = np.asarray(flat.to_numpy(zero_copy_only=False))
    if column.kind == "int64" and (
        values.dtype.kind == "f" or (values.dtype == np.uint64 and values.max(initial=0) > _LARGEST)
    ):
        return None
    return values.astype(np.int64 if column.kind == "int64" else np.float64).reshape(len(array), *column.shape)
