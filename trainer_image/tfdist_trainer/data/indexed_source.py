"""The examples of all members in uncompressed TFRecord files, read by index."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdist_trainer.autograph import do_not_convert
from tfdist_trainer.data import tfrecord
from tfdist_trainer.data.batches import BatchOrder, shared_batches
from tfdist_trainer.data.columns import BadRecords, DataColumn
from tfdist_trainer.data.files import still_readable
from tfdist_trainer.data.object_cache import download
from tfdist_trainer.data.record_reader import Indices, RecordReader
from tfdist_trainer.data.source import FileSource

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
