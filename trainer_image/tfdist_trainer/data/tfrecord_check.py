"""Explains why a record is bad, from its protocol buffer, value by value."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tfdist_trainer.data import images
from tfdist_trainer.data.columns import Array, DataColumn
from tfdist_trainer.data.content import image_kind
from tfdist_trainer.errors import one_line

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
