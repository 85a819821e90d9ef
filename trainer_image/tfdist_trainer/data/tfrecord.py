"""Columns in TFRecord files of `tf.train.Example`s.

Before training the records are only counted, by the lengths in their headers (`framing`). A record that is damaged, or
does not match the columns, fails the step that reads it, and `check` then finds that record. If bad records are to be
skipped, all are checked first, because every member must know the number of steps in an epoch.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdist_trainer.autograph import graph
from tfdist_trainer.data import images
from tfdist_trainer.data.columns import Array, BadRecords, Column
from tfdist_trainer.data.content import tfrecord_hint
from tfdist_trainer.data.framing import frames
from tfdist_trainer.data.object_cache import local
from tfdist_trainer.data.tfrecord_check import explain, feature_names
from tfdist_trainer.errors import ColumnAbsentError, DataMalformedError, one_line

_CHECK_BATCH: Final = 1024
_WRONG: Final = (tf.errors.InvalidArgumentError, UnicodeDecodeError)
"""UnicodeDecodeError: TensorFlow's message may quote a record of arbitrary bytes."""
_DAMAGED: Final = (tf.errors.DataLossError, tf.errors.InvalidArgumentError)


def compression(gzip: bool) -> str:
    """Return TensorFlow's name of the compression."""
    return "GZIP" if gzip else ""


def count(name: str, *, gzip: bool) -> int:
    """Return the number of records in the file `name`, without reading them; errors as of `lengths`."""
    return len(lengths(name, gzip=gzip))


def lengths(name: str, *, gzip: bool) -> npt.NDArray[np.uint64]:
    """Return the bytes of the data of each record in the file `name`, [records], without reading the records.

    Raises:
        DataMalformedError: the file is not TFRecord, or is truncated.
    """
    try:
        found = frames(name, gzip=gzip)
    except OSError as error:
        raise DataMalformedError(f"{name}: cannot be read: {error.strerror}") from None
    if found.problem is not None:
        hint = "" if found.count else tfrecord_hint(name, compressed=gzip)
        raise DataMalformedError(f"{_damaged(name, gzip, found.count, found.problem)}{hint}")
    return found.lengths


def decode(serialized: tf.Tensor, columns: Sequence[Column]) -> dict[str, tf.Tensor]:
    """Return the columns, [batch, *shape] each, of a batch of records, strings [batch]; in a graph or not.

    Encoded images stay encoded, so that a program decodes them together with its augmentation.

    Raises:
        tf.errors.InvalidArgumentError: a record is not an Example, or a value does not match its column.
    """
    parsed = tf.io.parse_example(serialized, {column.name: _feature(column) for column in columns})
    return {column.name: _value(column, parsed[column.name]) for column in columns}


def check(name: str, columns: Sequence[Column], bad: BadRecords, *, gzip: bool) -> tuple[int, tuple[int, ...]]:
    """Read the whole file; return the number of readable records, and the indices of the bad ones among them.

    Raises:
        DataMalformedError: a record is bad, and `bad` does not skip; the message has its index.
        ColumnAbsentError: no record has a column.
    """
    checked = graph(lambda batch: _decode_all(batch, columns), reduce_retracing=True)
    wrong: list[int] = []
    seen = 0
    try:
        for batch in tf.data.TFRecordDataset(local(name), compression(gzip)).batch(_CHECK_BATCH).prefetch(1):
            try:
                checked(batch)
            except _WRONG:
                wrong += _find(name, seen, batch.numpy(), columns, bad)
            seen += int(batch.shape[0])
    except _DAMAGED as error:
        seen += _whole_after(name, seen, gzip=gzip)
        lost = max(1, frames(name, gzip=gzip).count - seen)
        hint = "" if seen else tfrecord_hint(name, compressed=gzip)
        bad.found(name, f"{_damaged('', gzip, seen, one_line(error.message)).removeprefix(': ')}{hint}", lost)
    if wrong and len(wrong) >= seen:
        _check_columns_exist(name, seen, columns, gzip=gzip)
    return seen, tuple(number for number in wrong if number < seen)


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


def _feature(column: Column) -> tf.io.FixedLenFeature:
    if column.kind in {"uint8", "string", "encoded"}:
        return tf.io.FixedLenFeature([] if column.kind == "uint8" else column.shape, tf.string)
    return tf.io.FixedLenFeature(column.shape, tf.as_dtype(column.kind))


def _decode_all(serialized: tf.Tensor, columns: Sequence[Column]) -> list[tf.Tensor]:
    """Return what depends on every value of the records `serialized`, encoded images included; errors of `decode`."""
    found = decode(serialized, columns)
    encoded = [images.sizes(found[column.name], column.channels) for column in columns if column.kind == "encoded"]
    return [*found.values(), *encoded]


def _value(column: Column, values: tf.Tensor) -> tf.Tensor:
    """Return the parsed `values` as programs receive them, after checking them."""
    if column.kind == "uint8":
        # Not -1 for the batch axis: images of half the size would become half as many.
        values = tf.reshape(tf.io.decode_raw(values, tf.uint8), [tf.shape(values)[0], *column.shape])
    right = []
    if column.below is not None:
        right.append(tf.reduce_all((values >= column.minimum) & (tf.cast(values, tf.int64) < column.below)))
    if column.kind == "float32":
        right.append(tf.reduce_all(tf.math.is_finite(values)))
    if column.positive:
        right.append(tf.reduce_all(values >= 0))
    if column.choices:
        matches = values[..., tf.newaxis] == tf.constant(column.choices)
        right.append(tf.reduce_all(tf.reduce_any(matches, axis=-1)))
        values = tf.argmax(matches, axis=-1)
    with tf.control_dependencies([tf.debugging.Assert(item, [f"a wrong value of {column.name}"]) for item in right]):
        return tf.identity(values)


def _find(name: str, seen: int, batch: Sequence[bytes], columns: Sequence[Column], bad: BadRecords) -> Iterator[int]:
    """Yield the indices of the bad records in `batch`, whose first record has the index `seen`."""
    found = 0
    for offset, serialized in enumerate(batch):
        message = explain(serialized, columns)
        if message is not None:
            bad.found(f"{name}: record {seen + offset}", message)
            found += 1
            yield seen + offset
    if not found:
        raise DataMalformedError(f"{name}: a record between {seen} and {seen + len(batch)} cannot be parsed")


def _check_columns_exist(name: str, count: int, columns: Sequence[Column], *, gzip: bool) -> None:
    """Raise `ColumnAbsentError` if none of the first `count` records has one of `columns`."""
    absent, names = {column.name for column in columns}, set[str]()
    for record in tf.data.TFRecordDataset(local(name), compression(gzip)).take(count).as_numpy_iterator():
        names |= feature_names(record)
        absent -= names
        if not absent:
            return
    if names:
        raise ColumnAbsentError(f"{name}: no record has a feature {min(absent)!r}; they have {sorted(names)[:50]}")


def _whole_after(name: str, seen: int, *, gzip: bool) -> int:
    """Return the number of readable records between the last complete batch and the damage."""
    more = 0
    try:
        for _ in tf.data.TFRecordDataset(local(name), compression(gzip)).skip(seen):
            more += 1
    except _DAMAGED:
        pass
    return more


def _damaged(name: str, gzip: bool, records: int, why: str) -> str:
    return f"{name}: damaged or not a TFRecord file{' of GZIP' if gzip else ''}, after {records} records: {why}"
