"""The examples of one split in one pipeline, for all file formats.

Files of all formats but TFRecord are read into memory once; batches are gathered by index. TFRecord
files are read in each epoch, or kept in memory as serialized records with `cache`; uncompressed ones are read by index,
by all members in one order (`IndexedSource`, ADR 40).
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdist.programs.data import Format
from tfdist_trainer import log
from tfdist_trainer.autograph import do_not_convert, graph
from tfdist_trainer.data import csvs, idx, json_lines, npz, parquet, text_examples, tfrecord
from tfdist_trainer.data.batches import BatchOrder, indexed_batches, shared_batches, streamed_batches
from tfdist_trainer.data.columns import Array, BadRecords, DataColumn
from tfdist_trainer.data.files import FileAssignment, still_readable
from tfdist_trainer.data.framing import runs
from tfdist_trainer.data.object_cache import download, local
from tfdist_trainer.data.record_reader import Indices, RecordReader
from tfdist_trainer.errors import ColumnAbsentError, ConfigurationError, DataMalformedError

Read = Callable[[str, Sequence[DataColumn], BadRecords], dict[str, Array]]
READERS: Final[Mapping[str, Read]] = {
    "npz": npz.read,
    "csv": csvs.read,
    "tsv": csvs.read_tsv,
    "text": text_examples.read,
    "jsonl": json_lines.read,
    "parquet": parquet.read,
    "idx": idx.read_columns,
}
_BATCH: Final = 4096


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading files."""

    columns: tuple[DataColumn, ...]
    format: Format
    gzip: bool = False
    skip_bad: bool = False
    interleave: int = 1
    cache: bool = False


class FileSource(ABC):
    """The examples of a split that one pipeline reads from files."""

    count: int
    """Number of examples."""
    skipped: int
    """Number of bad records that were skipped."""
    first_skipped: str | None = None
    """The first of them, with its reason."""

    parallel: int | None = None
    """Number of batches decoded in parallel; see `pipeline.ExampleSource`."""
    by_index: bool = False
    """Whether these are the examples of all members; see `pipeline.ExampleSource`."""

    @abstractmethod
    def ordered_batches(self, order: BatchOrder, buffer: int) -> tf.data.Dataset:
        """Return padded batches of elements (`batches.Batches`), shuffled over at least `buffer` examples."""

    @abstractmethod
    def decode(self, elements: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the columns [batch, ...] of a batch of elements."""

    def check(self) -> None:
        """Read all data again to find the record that made a step fail.

        Raises:
            DataMalformedError: a record is bad; the message names file and record.
            DataMissingError: a file no longer exists.
        """
        return

    def batches(self) -> Iterator[dict[str, Array]]:
        """Yield the columns of all examples, some thousands at a time, in the order of the files."""
        decode = graph(self.decode, reduce_retracing=True)
        for elements, valid_mask in self.ordered_batches(BatchOrder(min(_BATCH, max(1, self.count))), 0):
            columns = {name: values.numpy() for name, values in decode(elements).items()}
            yield {name: values[valid_mask.numpy()] for name, values in columns.items()}


def open_source(part: FileAssignment, options: ReadOptions) -> FileSource:
    """Return the examples of the assignment `part`.

    Raises:
        DataMissingError: an idx file has no file of labels.
        DataMalformedError: a file or record does not match `options`, and bad records are not skipped; or no record of
            a file has a column.
        ConfigurationError: encoded images are to be read from files of another format than TFRecord.
    """
    if part.files and options.format != "tfrecord" and any(column.kind == "encoded" for column in options.columns):
        raise ConfigurationError(
            f"training.config.imageFormat: encoded images are read only from TFRecord files; {part.files[0]} is read "
            f"as {options.format}: set imageFormat: Raw, or data.format: tfrecord if it is TFRecord"
        )
    download(part.files)
    source = TFRecordSource(part, options) if options.format == "tfrecord" else InMemorySource(part, options)
    if source.skipped:
        log.event("bad-records-skipped", count=source.skipped, examples=source.count)
    return source


class InMemorySource(FileSource):
    """Examples in memory."""

    def __init__(self, part: FileAssignment, options: ReadOptions) -> None:
        bad = BadRecords(skip=options.skip_bad)
        columns = {column.name: [column.empty()] for column in options.columns}
        first_record = 0
        for name in part.files:
            values = _read(name, options, bad)
            size = len(next(iter(values.values())))
            # Records are numbered over all files, so that each stays with one pipeline.
            start = (part.offset - first_record) % part.stride
            for key, array in values.items():
                columns[key].append(array[start :: part.stride])
            first_record += size
        arrays = {key: np.concatenate(arrays) for key, arrays in columns.items()}
        self.count = len(next(iter(arrays.values())))
        # Pipelines that share files find the same bad records; only one reports them.
        self.skipped = bad.count if part.offset == 0 else 0
        self.first_skipped = bad.first
        with tf.device("CPU:0"):
            kinds = {key: tf.string if array.dtype == object else array.dtype for key, array in arrays.items()}
            self._columns = {key: tf.constant(array, kinds[key]) for key, array in arrays.items()}

    def ordered_batches(self, order: BatchOrder, buffer: int) -> tf.data.Dataset:  # noqa: ARG002  a full permutation
        """Return the indices of the examples."""
        return indexed_batches(self.count, order)

    def decode(self, elements: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the columns of the examples with the indices `elements`, [batch]."""
        return {key: tf.gather(column, elements) for key, column in self._columns.items()}


def _read(name: str, options: ReadOptions, bad: BadRecords) -> dict[str, Array]:
    """Return the columns of one file; empty ones if the file as a whole is malformed and skipped."""
    try:
        return READERS[options.format](name, options.columns, bad)
    except DataMalformedError as error:
        # A column that no record has is a wrong configuration, which skipping would hide.
        if not bad.skip or isinstance(error, ColumnAbsentError):
            raise
        bad.report(name, str(error).removeprefix(f"{name}: "))
        return {column.name: column.empty() for column in options.columns}


class TFRecordSource(FileSource):
    """Examples in TFRecord files."""

    def __init__(self, part: FileAssignment, options: ReadOptions) -> None:
        self._part = part
        self._options = options
        bad = BadRecords(skip=options.skip_bad)
        gzip = options.gzip
        # All records are checked first: every member must know the steps of an epoch.
        if options.skip_bad:
            checked = [tfrecord.check(name, options.columns, bad, gzip=gzip) for name in part.files]
        else:
            checked = [(tfrecord.count(name, gzip=gzip), ()) for name in part.files]
        self._readable = [readable for readable, _ in checked]
        # Records are numbered over all files, so that a tensor of the bad ones can be searched.
        self._first = list(itertools.accumulate(self._readable, initial=0))[:-1]
        self._bad = [
            first + record
            for first, (_, bad_records) in zip(self._first, checked, strict=True)
            for record in bad_records
        ]
        # TensorFlow's reader ends at the first damaged record.
        by_index = options.skip_bad and not gzip
        self._reader = RecordReader(part.files, [tuple(runs(name)) for name in part.files]) if by_index else None
        total = sum(self._readable) - len(self._bad)
        self.count = len(range(part.offset, total, part.stride))
        self.skipped = bad.count if part.offset == 0 else 0
        self.first_skipped = bad.first
        self._cached = self._in_memory() if options.cache else None
        self.parallel = tf.data.AUTOTUNE

    def ordered_batches(self, order: BatchOrder, buffer: int) -> tf.data.Dataset:
        """Return the serialized records, strings [size]; or their indices if they are in memory."""
        if self._cached is not None:
            return indexed_batches(self.count, order)
        records = self._records(order.seed)
        if order.seed is not None and buffer > 1:
            records = records.shuffle(buffer, seed=order.seed, reshuffle_each_iteration=False)
        return streamed_batches(records, order)

    def decode(self, elements: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the columns of the records `elements`, [batch]."""
        records = elements if self._cached is None else tf.gather(self._cached, elements)
        return tfrecord.decode(records, self._options.columns)

    def check(self) -> None:
        """Read every record of every file; see the base class."""
        for name in self._part.files:
            still_readable(name)
            tfrecord.check(name, self._options.columns, BadRecords(skip=False), gzip=self._options.gzip)

    def _records(self, seed: tf.Tensor | None) -> tf.data.Dataset:
        """Return the records one by one, scalars of dtype string.

        `seed` permutes whole files, unless pipelines share files and must number the records alike.
        """
        if not self._part.files:
            return tf.data.Dataset.from_tensor_slices(tf.constant([], tf.string))
        order = tf.range(len(self._part.files), dtype=tf.int32)
        # Pipelines that share files must number the records alike.
        if seed is not None and self._part.stride == 1:
            order = tf.argsort(tf.random.stateless_uniform([len(self._part.files)], seed=[seed, 0]))
        files = tf.data.Dataset.from_tensor_slices(order)
        cycle = min(self._options.interleave, len(self._part.files)) if self._part.stride == 1 else 1
        if cycle == 1:
            records = files.flat_map(do_not_convert(self._file))
        else:
            records = files.interleave(
                do_not_convert(self._file), cycle_length=cycle, num_parallel_calls=cycle, deterministic=True
            )
        return records.shard(self._part.stride, self._part.offset) if self._part.stride > 1 else records

    def _file(self, number: tf.Tensor) -> tf.data.Dataset:
        """Return the good records of the file `number`."""
        first = tf.gather(tf.constant(self._first, tf.int64), number)
        count = tf.gather(tf.constant(self._readable, tf.int64), number)
        if self._reader is not None:
            return self._read(self._reader, tf.data.Dataset.range(first, first + count).filter(self._is_good))
        name = tf.gather(tf.constant([local(name) for name in self._part.files]), number)
        kind = tfrecord.compression(self._options.gzip)
        records = tf.data.TFRecordDataset(name, compression_type=kind, buffer_size=1 << 20)
        if not self._options.skip_bad:
            return records
        valid = records.take(count).enumerate(first).filter(lambda index, _: self._is_good(index))
        return valid.map(lambda _, record: record)

    @do_not_convert
    def _is_good(self, index: tf.Tensor) -> tf.Tensor:
        """Return whether the record with this number is not to be skipped, bool []."""
        return tf.reduce_all(index != tf.constant(self._bad, tf.int64))

    @staticmethod
    def _read(reader: RecordReader, indices: tf.data.Dataset) -> tf.data.Dataset:
        """Return the records with `indices`."""

        @do_not_convert
        def read(batch: tf.Tensor) -> tf.Tensor:
            return tf.ensure_shape(tf.numpy_function(reader.read, [batch], tf.string, stateful=False), [None])

        return indices.batch(reader.batch).map(read).unbatch()

    def _in_memory(self) -> tf.Tensor:
        """Return all records, strings [count]."""
        parts = [batch.numpy() for batch in self._records(None).batch(_BATCH)]
        with tf.device("CPU:0"):
            return tf.constant(np.concatenate([np.empty([0], object), *parts]), tf.string)


_PARALLEL_READS: Final = 2


class IndexedSource(FileSource):
    """Examples whose order in an epoch is a permutation of all: position, not reading, determines what comes next."""

    by_index = True
    skipped = 0

    def __init__(self, files: Sequence[str], columns: tuple[DataColumn, ...]) -> None:
        """Read the headers of all records of `files`.

        Raises:
            DataMalformedError: a file is not TFRecord, or is truncated.
        """
        self._files = tuple(files)
        self._columns = columns
        download(files)
        self._reader = RecordReader(files, [[tfrecord.complete(name, gzip=False)] for name in files])
        self.count = self._reader.count
        self.parallel = tf.data.AUTOTUNE

    def ordered_batches(self, order: BatchOrder, buffer: int) -> tf.data.Dataset:  # noqa: ARG002  a full permutation
        """Return the serialized records, strings [size]."""
        return self.read(self.indices(order), order.size)

    def indices(self, order: BatchOrder) -> tf.data.Dataset:
        """Return batches of the indices of the records, a permutation of all."""
        return shared_batches(self.count, order)

    def read(self, batches: tf.data.Dataset, size: int) -> tf.data.Dataset:
        """Return `batches` of `size` indices, or of tuples of them and seeds, with the records instead of the indices.

        Several batches are read at a time, so that many records share the cost of a call.
        """
        several = max(1, self._reader.batch // size)

        @do_not_convert
        def read(elements: Any, valid_mask: tf.Tensor) -> Any:
            indices, *seeds = elements if isinstance(elements, tuple) else (elements,)
            records = tf.numpy_function(self._records, [tf.reshape(indices, [-1])], tf.string, stateful=False)
            shaped = tf.ensure_shape(tf.reshape(records, [-1, size]), indices.shape)
            return ((shaped, *seeds) if seeds else shaped), valid_mask

        # One call of Python for many records.
        groups = batches.batch(several).map(read, num_parallel_calls=_PARALLEL_READS, deterministic=True)
        return groups.unbatch()

    def decode(self, elements: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the columns of the records `elements`, [batch]."""
        return tfrecord.decode(elements, self._columns)

    def check(self) -> None:
        """Read every record of every file; see the base class."""
        for name in self._files:
            still_readable(name)
            tfrecord.check(name, self._columns, BadRecords(skip=False), gzip=False)

    def _records(self, indices: Indices) -> npt.NDArray[np.object_]:
        return self._reader.read(indices)
