"""One split's examples on one pipeline, whatever the format of its files.

`npz`, `csv` and `idx` files are read into memory once; an example is then a number, and a batch is gathered.
TFRecord files are read again each epoch, or kept in memory as they are when `cache` says so.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import tensorflow as tf

from tfdist_trainer import log
from tfdist_trainer.autograph import graph, untranslated
from tfdist_trainer.data import csvs, idx, npz, tfrecord
from tfdist_trainer.data.batches import Order, by_number, one_by_one
from tfdist_trainer.data.columns import Array, BadRecords, Column
from tfdist_trainer.data.files import Part, still_readable
from tfdist_trainer.data.formats import Format
from tfdist_trainer.errors import DataMalformedError

Read = Callable[[str, Sequence[Column], BadRecords], dict[str, Array]]
READERS: Final[Mapping[str, Read]] = {"npz": npz.read, "csv": csvs.read, "idx": idx.read_columns}
PARALLEL: Final = 2
"""Batches of records that are parsed at the same time."""

_BATCH: Final = 4096


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read."""

    columns: tuple[Column, ...]
    format: Format
    gzip: bool = False
    skip_bad: bool = False
    interleave: int = 1
    cache: bool = False


class Source(ABC):
    """What one pipeline reads of a split."""

    count: int
    """Examples."""
    skipped: int
    """Bad records that were left out."""

    parallel: int | None = None
    """Batches to decode at the same time; see `pipeline.Examples`."""

    @abstractmethod
    def ordered(self, order: Order, buffer: int) -> tf.data.Dataset:
        """Return batches of elements, padded (`batches.Batches`), where at least `buffer` examples are mixed."""

    @abstractmethod
    def decode(self, elements: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the columns [batch, ...] of a batch of elements."""

    def check(self) -> None:
        """Read everything anew to find what made a step fail.

        Raises:
            DataMalformedError: with the file and the record.
            DataMissingError: with the file, when it is gone.
        """
        return

    def batches(self) -> Iterator[dict[str, Array]]:
        """Yield the columns of all examples, some thousands at a time, in the order of the files."""
        decode = graph(self.decode, reduce_retracing=True)
        for elements, present in self.ordered(Order(min(_BATCH, max(1, self.count))), 0):
            columns = {name: values.numpy() for name, values in decode(elements).items()}
            yield {name: values[present.numpy()] for name, values in columns.items()}


def open_source(part: Part, reading: Reading) -> Source:
    """Return the examples of `part`.

    Raises:
        DataMissingError: the labels of an idx file are not there.
        DataMalformedError: a file or record is not as `reading` says, and those are not to be skipped.
    """
    source = Records(part, reading) if reading.format == "tfrecord" else Table(part, reading)
    if source.skipped:
        log.event("bad-records-skipped", count=source.skipped, examples=source.count)
    return source


class Table(Source):
    """Examples in memory."""

    def __init__(self, part: Part, reading: Reading) -> None:
        bad = BadRecords(skip=reading.skip_bad)
        columns = {column.name: [column.empty()] for column in reading.columns}
        first = 0
        for name in part.files:
            values = _read(name, reading, bad)
            size = len(next(iter(values.values())))
            start = (part.offset - first) % part.stride
            for key, array in values.items():
                columns[key].append(array[start :: part.stride])
            first += size
        arrays = {key: np.concatenate(arrays) for key, arrays in columns.items()}
        self.count = len(next(iter(arrays.values())))
        # Where pipelines share files all of them find the same bad records, and one tells.
        self.skipped = bad.count if part.offset == 0 else 0
        with tf.device("CPU:0"):
            kinds = {key: tf.string if array.dtype == object else array.dtype for key, array in arrays.items()}
            self._columns = {key: tf.constant(array, kinds[key]) for key, array in arrays.items()}

    def ordered(self, order: Order, buffer: int) -> tf.data.Dataset:  # noqa: ARG002  all are mixed
        """Return the examples' numbers."""
        return by_number(self.count, order)

    def decode(self, elements: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the columns of the examples with the numbers `elements`, [batch]."""
        return {key: tf.gather(column, elements) for key, column in self._columns.items()}


def _read(name: str, reading: Reading, bad: BadRecords) -> dict[str, Array]:
    """Return the columns of one file, none when it is malformed as a whole and skipped."""
    try:
        return READERS[reading.format](name, reading.columns, bad)
    except DataMalformedError as error:
        if not bad.skip:
            raise
        bad.found(name, str(error).removeprefix(f"{name}: "))
        return {column.name: column.empty() for column in reading.columns}


class Records(Source):
    """Examples in TFRecord files."""

    def __init__(self, part: Part, reading: Reading) -> None:
        self._part = part
        self._reading = reading
        bad = BadRecords(skip=reading.skip_bad)
        gzip = reading.gzip
        if reading.skip_bad:
            found = [tfrecord.check(name, reading.columns, bad, gzip=gzip) for name in part.files]
        else:
            found = [(tfrecord.count(name, gzip=gzip), ()) for name in part.files]
        self._readable = [readable for readable, _ in found]
        # (file, record) as one number, because a tensor of them has to be searched.
        self._bad = [(file << 40) + record for file, (_, wrong) in enumerate(found) for record in wrong]
        total = sum(self._readable) - len(self._bad)
        self.count = len(range(part.offset, total, part.stride))
        self.skipped = bad.count if part.offset == 0 else 0
        self._cached = self._in_memory() if reading.cache else None
        self.parallel = PARALLEL

    def ordered(self, order: Order, buffer: int) -> tf.data.Dataset:
        """Return the serialized records, strings [size]; or their numbers, where they are in memory."""
        if self._cached is not None:
            return by_number(self.count, order)
        records = self._records(order.seed)
        if order.seed is not None and buffer > 1:
            records = records.shuffle(buffer, seed=order.seed, reshuffle_each_iteration=False)
        return one_by_one(records, order)

    def decode(self, elements: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the columns of the records `elements`, [batch]."""
        records = elements if self._cached is None else tf.gather(self._cached, elements)
        return tfrecord.decode(records, self._reading.columns)

    def check(self) -> None:
        """Read every record of every file; see the base class."""
        for name in self._part.files:
            still_readable(name)
            tfrecord.check(name, self._reading.columns, BadRecords(skip=False), gzip=self._reading.gzip)

    def _records(self, seed: tf.Tensor | None) -> tf.data.Dataset:
        """Return the records one by one, scalars of dtype string.

        `seed` permutes whole files, unless pipelines share files and have to number the records alike.
        """
        if not self._part.files:
            return tf.data.Dataset.from_tensor_slices(tf.constant([], tf.string))
        order = tf.range(len(self._part.files), dtype=tf.int32)
        if seed is not None and self._part.stride == 1:
            order = tf.argsort(tf.random.stateless_uniform([len(self._part.files)], seed=[seed, 0]))
        files = tf.data.Dataset.from_tensor_slices(order)
        cycle = min(self._reading.interleave, len(self._part.files)) if self._part.stride == 1 else 1
        if cycle == 1:
            records = files.flat_map(untranslated(self._file))
        else:
            records = files.interleave(
                untranslated(self._file), cycle_length=cycle, num_parallel_calls=cycle, deterministic=True
            )
        return records.shard(self._part.stride, self._part.offset) if self._part.stride > 1 else records

    def _file(self, number: tf.Tensor) -> tf.data.Dataset:
        """Return the good records of the file `number`."""
        name = tf.gather(tf.constant(self._part.files), number)
        kind = tfrecord.compression(self._reading.gzip)
        records = tf.data.TFRecordDataset(name, compression_type=kind, buffer_size=1 << 20)
        if not self._reading.skip_bad:
            return records
        records = records.take(tf.gather(tf.constant(self._readable, tf.int64), number))
        if not self._bad:
            return records
        first, bad = tf.cast(number, tf.int64) * (1 << 40), tf.constant(self._bad, tf.int64)
        good = records.enumerate().filter(lambda place, _: tf.reduce_all(first + place != bad))
        return good.map(lambda _, record: record)

    def _in_memory(self) -> tf.Tensor:
        """Return all records, strings [count]."""
        parts = [batch.numpy() for batch in self._records(None).batch(_BATCH)]
        with tf.device("CPU:0"):
            return tf.constant(np.concatenate([np.empty([0], object), *parts]), tf.string)
