"""Images and labels in TFRecord files of `tf.train.Example`s.

The records of a pipeline are counted and checked before training: a damaged file is then reported by name
and record, and every member knows how many steps an epoch has. That costs one pass over the files.
"""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from tfdist_trainer.data.files import Part
from tfdist_trainer.data.npz import ImageSpec
from tfdist_trainer.errors import DataMalformedError, one_line

_CHECK_BATCH = 1024
_PARSE_ERRORS = (tf.errors.InvalidArgumentError, UnicodeDecodeError)
"""The second arises when TensorFlow's message quotes a record of arbitrary bytes."""

_FEATURES = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def records(part: Part, *, gzip: bool, order: tf.Tensor | None = None) -> tf.data.Dataset:
    """Return the serialized records, scalars of dtype string, that one pipeline reads.

    `order`, integers [files], permutes whole files. It is ignored when pipelines share files, because every
    pipeline must then number the records alike.
    """
    files = tf.constant(part.files, tf.string)
    if order is not None and part.stride == 1:
        files = tf.gather(files, order)
    if not part.files:
        return tf.data.Dataset.from_tensor_slices(tf.constant([], tf.string))
    dataset = tf.data.TFRecordDataset(files, compression_type=_compression(gzip), buffer_size=1 << 20)
    return dataset.shard(part.stride, part.offset) if part.stride > 1 else dataset


def decode(serialized: tf.Tensor, spec: ImageSpec) -> tuple[tf.Tensor, tf.Tensor]:
    """Return images, uint8 [batch, height, width, channels], and labels, int64 [batch].

    `serialized` is a batch of records, strings [batch].
    """
    parsed = tf.io.parse_example(serialized, _FEATURES)
    pixels = tf.io.decode_raw(parsed["image"], tf.uint8)
    return tf.reshape(pixels, [-1, *spec.shape]), parsed["label"]


def count(part: Part, spec: ImageSpec, *, gzip: bool) -> int:
    """Return how many records one pipeline reads, after checking every record of its files.

    Raises:
        DataMalformedError: with the file and the number of the first bad record.
    """
    total = sum(_check_file(name, spec, gzip=gzip) for name in part.files)
    return len(range(part.offset, total, part.stride))


def write(name: str, images: np.ndarray, labels: np.ndarray, *, gzip: bool = False) -> None:
    """Write images, uint8 [examples, ...], and labels [examples] as one TFRecord file."""
    with tf.io.TFRecordWriter(name, options=_compression(gzip)) as writer:
        for image, label in zip(images, labels, strict=True):
            writer.write(example(image.tobytes(), int(label)))


def example(image: bytes, label: int) -> bytes:
    """Return a serialized `tf.train.Example`."""
    feature = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    serialized: bytes = tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
    return serialized


def _compression(gzip: bool) -> str:
    return "GZIP" if gzip else ""


def _check_file(name: str, spec: ImageSpec, *, gzip: bool) -> int:
    """Return the number of records in `name`; each is checked."""
    seen = 0
    for batch in _batches(name, gzip=gzip):
        if not bool(_are_right(batch, spec)):
            raise DataMalformedError(_first_bad(name, seen, batch, spec))
        seen += int(batch.shape[0])
    return seen


def _batches(name: str, *, gzip: bool) -> Iterator[tf.Tensor]:
    """Yield the records of `name`, [<= 1024] strings at a time."""
    seen = 0
    try:
        for batch in tf.data.TFRecordDataset(name, _compression(gzip)).batch(_CHECK_BATCH).prefetch(1):
            yield batch
            seen += int(batch.shape[0])
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        raise DataMalformedError(
            f"{name}: damaged or not a TFRecord file{' of GZIP' if gzip else ''}, after record {seen}: "
            f"{one_line(error.message)}"
        ) from None


def _check(batch: tf.Tensor, length: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
    parsed = tf.io.parse_example(batch, _FEATURES)
    label = parsed["label"]
    sizes = tf.reduce_all(tf.equal(tf.strings.length(parsed["image"]), length))
    return sizes & tf.reduce_all((label >= 0) & (label < classes))


_check_in_graph = tf.function(_check, reduce_retracing=True)


def _are_right(batch: tf.Tensor, spec: ImageSpec) -> bool:
    try:
        return bool(_check_in_graph(batch, tf.constant(_length(spec)), tf.constant(spec.classes, tf.int64)))
    except _PARSE_ERRORS:
        return False


def _length(spec: ImageSpec) -> int:
    return int(np.prod(spec.shape))


def _first_bad(name: str, seen: int, batch: tf.Tensor, spec: ImageSpec) -> str:
    """Return the message for the first bad record of `batch`, whose records follow `seen` others."""
    for offset, serialized in enumerate(batch):
        where = f"{name}: record {seen + offset}"
        try:
            parsed = tf.io.parse_single_example(serialized, _FEATURES)
        except _PARSE_ERRORS as error:
            return f"{where}: not an Example with 'image' and 'label': {one_line(str(error))[:200]}"
        size, label = len(parsed["image"].numpy()), int(parsed["label"])
        if size != _length(spec):
            expected = f"{_length(spec)} of imageShape {list(spec.shape)}"
            return f"{where}: 'image' has {size} bytes, expected {expected}"
        if not 0 <= label < spec.classes:
            return f"{where}: has label {label}, expected 0 to {spec.classes - 1}"
    return f"{name}: a record between {seen} and {seen + int(batch.shape[0])} cannot be parsed"
