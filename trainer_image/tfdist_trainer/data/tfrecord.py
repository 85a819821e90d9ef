"""Columns in TFRecord files of `tf.train.Example`s.

Before training the records are only counted, by the lengths in their headers (`framing`). A record that is damaged, or
does not match the columns, fails the step that reads it, and `check` then finds that record. If bad records are to be
skipped, all are checked first, because every member must know the number of steps in an epoch. TensorFlow's reader ends
at the first damaged record: uncompressed files are then read by index (`record_reader`), without the damaged ones.
`explain` says why a record is bad, value by value, from its protocol buffer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tfdist_trainer.atomic import input_failure, reject_storage_error
from tfdist_trainer.autograph import graph
from tfdist_trainer.data import images
from tfdist_trainer.data.columns import Array, BadRecords, DataColumn
from tfdist_trainer.data.content import image_kind, tfrecord_hint
from tfdist_trainer.data.framing import Frames, frames, runs
from tfdist_trainer.data.object_cache import local
from tfdist_trainer.data.record_reader import RecordReader
from tfdist_trainer.errors import ColumnAbsentError, DataMalformedError, one_line

_CHECK_BATCH: Final = 1024
_INVALID: Final = (tf.errors.InvalidArgumentError, UnicodeDecodeError)
"""UnicodeDecodeError: TensorFlow's message may quote a record of arbitrary bytes."""
_DAMAGED: Final = (tf.errors.DataLossError, tf.errors.InvalidArgumentError)


def compression(gzip: bool) -> str:
    """Return TensorFlow's name of the compression."""
    return "GZIP" if gzip else ""


def count(name: str, *, gzip: bool) -> int:
    """Return the number of records in the file `name`, without reading them; errors as of `complete`."""
    return complete(name, gzip=gzip).count


def complete(name: str, *, gzip: bool) -> Frames:
    """Return where the records of the file `name` are, without reading them.

    Raises:
        DataMalformedError: the file is not TFRecord, or is truncated.
        DataMissingError, StorageError: it cannot be read.
    """
    try:
        records = frames(name, gzip=gzip)
    except OSError as error:
        raise input_failure(error, f"{name}: cannot be read") from None
    if records.problem is not None:
        hint = "" if records.count else tfrecord_hint(name, compressed=gzip)
        raise DataMalformedError(f"{name}: {_damage_message(gzip, records.count, records.problem)}{hint}")
    return records


def decode(serialized: tf.Tensor, columns: Sequence[DataColumn]) -> dict[str, tf.Tensor]:
    """Return the columns, [batch, *shape] each, of a batch of records, strings [batch]; in a graph or not.

    Encoded images stay encoded, so that a program decodes them together with its augmentation.

    Raises:
        tf.errors.InvalidArgumentError: a record is not an Example, or a value does not match its column.
    """
    parsed = tf.io.parse_example(serialized, {column.name: _feature(column) for column in columns})
    return {column.name: _value(column, parsed[column.name]) for column in columns}


def check(name: str, columns: Sequence[DataColumn], bad: BadRecords, *, gzip: bool) -> tuple[int, tuple[int, ...]]:
    """Read the whole file; return the number of readable records, and the indices of the bad ones among them.

    Raises:
        DataMalformedError: a record is bad, and `bad` does not skip; the message names its index.
        ColumnAbsentError: no record has a column.
    """
    decode_graph = graph(lambda batch: _decode_all(batch, columns), reduce_retracing=True)
    bad_indices: list[int] = []
    records_read = 0
    for part in _parts(name, gzip=gzip):
        if not _match(decode_graph, part.records):
            bad_indices += _find(name, records_read, part.records, columns, bad)
        records_read += len(part.records)
        if part.problem is not None:
            hint = "" if records_read else tfrecord_hint(name, compressed=gzip)
            bad.report(name, f"{_damage_message(gzip, records_read, part.problem)}{hint}", part.lost)
    # All are bad: rather the configuration is.
    if bad_indices and len(bad_indices) >= records_read:
        _check_columns_exist(name, columns, gzip=gzip)
    return records_read, tuple(bad_indices)


def write(name: str, arrays: Mapping[str, Array], *, gzip: bool = False) -> None:
    """Write `arrays`, [examples, ...] by column, as one TFRecord file. Equal input gives equal bytes.

    uint8 with more than one axis becomes a string of raw bytes; other integers, numbers and strings become lists.
    """
    size = len(next(iter(arrays.values())))
    with tf.io.TFRecordWriter(name, options=compression(gzip)) as writer:
        for row in range(size):
            writer.write(example({key: array[row] for key, array in arrays.items()}))


def example(values: Mapping[str, Any]) -> bytes:
    """Return a serialized `tf.train.Example`."""
    features = tf.train.Features(feature={key: _as_feature(value) for key, value in sorted(values.items())})
    serialized: bytes = tf.train.Example(features=features).SerializeToString(deterministic=True)
    return serialized


def _as_feature(value: Any) -> tf.train.Feature:
    if isinstance(value, bytes):  # an array of NumPy would lose zero bytes at its end
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    array = np.asarray(value)
    if array.dtype == np.uint8 and array.ndim:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[array.tobytes()]))
    if array.dtype.kind in "iub":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=array.reshape(-1).tolist()))
    if array.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=array.reshape(-1).tolist()))
    texts = [item if isinstance(item, bytes) else str(item).encode() for item in array.reshape(-1).tolist()]
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))


def _feature(column: DataColumn) -> tf.io.FixedLenFeature:
    if column.kind in {"uint8", "string", "encoded"}:
        return tf.io.FixedLenFeature([] if column.kind == "uint8" else column.shape, tf.string)
    return tf.io.FixedLenFeature(column.shape, tf.as_dtype(column.kind))


def _decode_all(serialized: tf.Tensor, columns: Sequence[DataColumn]) -> list[tf.Tensor]:
    """Return what depends on every value of the records `serialized`, encoded images included; errors of `decode`."""
    decoded = decode(serialized, columns)
    encoded = [images.sizes(decoded[column.name], column.channels) for column in columns if column.kind == "encoded"]
    return [*decoded.values(), *encoded]


def _value(column: DataColumn, values: tf.Tensor) -> tf.Tensor:
    """Return the parsed `values` as programs receive them, after checking them."""
    if column.kind == "uint8":
        # Not -1 for the batch axis: images of half the size would become half as many.
        values = tf.reshape(tf.io.decode_raw(values, tf.uint8), [tf.shape(values)[0], *column.shape])
    conditions = []
    if column.below is not None:
        conditions.append(tf.reduce_all((values >= column.minimum) & (tf.cast(values, tf.int64) < column.below)))
    if column.kind == "float32":
        conditions.append(tf.reduce_all(tf.math.is_finite(values)))
    if column.positive:
        conditions.append(tf.reduce_all(values >= 0))
    if column.choices:
        matches = values[..., tf.newaxis] == tf.constant(column.choices)
        conditions.append(tf.reduce_all(tf.reduce_any(matches, axis=-1)))
        values = tf.argmax(matches, axis=-1)
    with tf.control_dependencies(
        [tf.debugging.Assert(condition, [f"a wrong value of {column.name}"]) for condition in conditions]
    ):
        return tf.identity(values)


class _Part(NamedTuple):
    """Some records of a file in succession."""

    records: Sequence[bytes | None]
    """None is a record whose data is damaged."""
    problem: str | None = None
    """A description of what follows these records, if it cannot be read as records."""
    lost: int = 0
    """Number of records that the problem costs, as far as they can be counted."""


def _parts(name: str, *, gzip: bool) -> Iterator[_Part]:
    """Yield the records of a file; after damage as well, unless it is compressed."""
    return _compressed_parts(name) if gzip else _plain_parts(name)


def _plain_parts(name: str) -> Iterator[_Part]:
    try:
        frame_runs = tuple(runs(name))
    except OSError as error:
        raise input_failure(error, f"{name}: cannot be read") from None
    with closing(RecordReader([name], [frame_runs])) as reader:
        first = 0
        for run in frame_runs:
            for start in range(first, first + run.count, reader.batch):
                indices = np.arange(start, min(start + reader.batch, first + run.count))
                try:
                    yield _Part(reader.read_undamaged(indices).tolist())
                except ValueError as error:
                    if error.__cause__ is not None:
                        reject_storage_error(error.__cause__, name)
                    raise DataMalformedError(str(error)) from None
            first += run.count
            if run.problem is not None:
                yield _Part([], run.problem, lost=1)


def _compressed_parts(name: str) -> Iterator[_Part]:
    records = tf.data.TFRecordDataset(local(name), compression(True))
    records_read = 0
    try:
        for batch in records.batch(_CHECK_BATCH).prefetch(1):
            yield _Part(batch.numpy().tolist())
            records_read += int(batch.shape[0])
    except _DAMAGED as error:
        # The batch with the damage again, record by record, to keep those before it.
        readable = [record.numpy() for record in records.skip(records_read).ignore_errors()]
        lost = max(1, frames(name, gzip=True).count - records_read - len(readable))
        yield _Part(readable, one_line(error.message), lost)


def _match(decode_graph: Callable[[tf.Tensor], object], records: Sequence[bytes | None]) -> bool:
    """Return whether all `records` are undamaged and match the columns."""
    if None in records:
        return False
    try:
        if records:
            decode_graph(tf.constant(records, tf.string))
    except _INVALID:
        return False
    return True


def _find(
    name: str, first: int, batch: Sequence[bytes | None], columns: Sequence[DataColumn], bad: BadRecords
) -> Iterator[int]:
    """Yield the indices of the bad records in `batch`, whose first record has the index `first`."""
    bad_count = 0
    for offset, serialized in enumerate(batch):
        message = "damaged: its checksum is wrong" if serialized is None else explain(serialized, columns)
        if message is not None:
            bad.report(f"{name}: record {first + offset}", message)
            bad_count += 1
            yield first + offset
    if not bad_count:
        raise DataMalformedError(f"{name}: a record between {first} and {first + len(batch)} cannot be parsed")


def _check_columns_exist(name: str, columns: Sequence[DataColumn], *, gzip: bool) -> None:
    """Raise `ColumnAbsentError` if no record that is not damaged has one of `columns`."""
    absent, names = {column.name for column in columns}, set[str]()
    for part in _parts(name, gzip=gzip):
        for record in part.records:
            names |= feature_names(record or b"")
            absent -= names
            if not absent:
                return
    if names:
        raise ColumnAbsentError(f"{name}: no record has a feature {min(absent)!r}; they have {sorted(names)[:50]}")


def _damage_message(gzip: bool, records: int, reason: str) -> str:
    return f"damaged or not a TFRecord file{' of GZIP' if gzip else ''}, after {records} records: {reason}"


_LISTS = {"bytes_list": "strings", "float_list": "numbers", "int64_list": "integers", None: "nothing"}
_MAX_NAMES = 50
_EXPECTED = {
    "uint8": "bytes_list",
    "string": "bytes_list",
    "encoded": "bytes_list",
    "float32": "float_list",
    "int64": "int64_list",
}


def explain(serialized: bytes, columns: Sequence[DataColumn]) -> str | None:
    """Return why the record `serialized` is bad, or None if it is not."""
    names = " and ".join(repr(column.name) for column in columns[:5])
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except DecodeError:
        return f"not an Example with {names}"
    missing = [column.name for column in columns if column.name not in features]
    if missing:
        return f"not an Example with {names}: it has no {missing[0]!r}; it has {sorted(features)[:_MAX_NAMES]}"
    return next((text for column in columns if (text := _explain(column, features[column.name]))), None)


def feature_names(serialized: bytes) -> frozenset[str]:
    """Return the names of the features of the record `serialized`; none if it is not an Example."""
    try:
        return frozenset(tf.train.Example.FromString(serialized).features.feature)
    except DecodeError:
        return frozenset()


def _explain(column: DataColumn, feature: tf.train.Feature) -> str | None:
    kind = feature.WhichOneof("kind")
    if kind != _EXPECTED[column.kind]:
        return f"{column.name!r} holds {_LISTS[kind]}, expected {_LISTS[_EXPECTED[column.kind]]}"
    values = list(getattr(feature, kind).value)
    size = int(np.prod(column.shape))
    if column.kind == "uint8":
        return _pixel_problem(column, values, size)
    if len(values) != size:
        return f"{column.name!r} has {len(values)} values, expected {size}"
    if column.kind == "encoded":
        return _image_problem(column, values[0])
    return _value_problem(column, values)


def _pixel_problem(column: DataColumn, values: list[bytes], size: int) -> str | None:
    """Return why `values` are not the raw bytes of one array of `size` bytes, or None."""
    actual = len(values[0]) if len(values) == 1 else -1
    if actual == size:
        return None
    expected = f"expected {size} of {list(column.shape)}"
    kind = image_kind(values[0]) if values else None
    if kind is None:
        return f"{column.name!r} has {actual} bytes, {expected}"
    remedy = "for JPEG and PNG files set imageFormat: Encoded"
    return f"{column.name!r} is a {kind} file of {len(values[0])} bytes, {expected} as raw pixels; {remedy}"


def _image_problem(column: DataColumn, content: bytes) -> str | None:
    """Return why the file `content` cannot be decoded, or None."""
    try:
        images.decode_image(tf.constant(content), column.channels)
    except tf.errors.InvalidArgumentError as error:
        kind = image_kind(content)
        if kind is None:
            detail = f"is not a JPEG or PNG file: {len(content)} bytes that begin with {content[:8].hex() or 'nothing'}"
            return f"{column.name!r} {detail}; for raw pixels set imageFormat: Raw"
        reason = one_line(error.message.rpartition("}} ")[2].partition(" [Op:")[0])
        return f"{column.name!r} is a {kind} file of {len(content)} bytes that cannot be decoded: {reason}"
    return None


def _value_problem(column: DataColumn, values: list[bytes] | list[int] | list[float]) -> str | None:
    """Return why the parsed `values`, of the right number, are bad, or None."""
    if column.kind == "string":
        texts = [bytes(value).decode("utf-8", "replace") for value in values]  # type: ignore[arg-type]
        array: Array = np.asarray(texts, str)
    else:
        array = np.asarray(values, column.kind)
    array = array.reshape([1, *column.shape])
    return column.complain(array[0]) if column.wrong(array)[0] else None
