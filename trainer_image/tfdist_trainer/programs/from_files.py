"""The base class of built-in programs: examples are columns of files; metrics and optimizer are configured."""

import math
import traceback
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import tensorflow as tf

from tfdist.programs.data import FilesConfig
from tfdist_trainer.autograph import autograph_converted, do_not_convert
from tfdist_trainer.data.batches import BatchOrder
from tfdist_trainer.data.columns import DataColumn
from tfdist_trainer.data.files import FileAssignment, Shard, Split, is_partitioned
from tfdist_trainer.data.pipeline import ExampleSource
from tfdist_trainer.data.source import FileSource, IndexedSource, ReadOptions, open_source
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.keras_compat import keras
from tfdist_trainer.metrics import build
from tfdist_trainer.metrics.additive import AdditiveMetric
from tfdist_trainer.programs import data_files, optimizers
from tfdist_trainer.programs.base import BuiltIn
from tfdist_trainer.programs.config import PATH
from tfdist_trainer.programs.ensemble import OTHER_LABELS
from tfdist_trainer.programs.user_program import dataset_error

MAX_INDEXED_RECORDS: Final = 50_000_000
"""Limit of records by index: their offsets and order take 1.2 GB in each worker."""
_MOST_NAMED: Final = 3
"""Classes in the example of an error."""


class FromFiles(BuiltIn):
    """A program that defines the columns to read, and maps them to features and labels."""

    Config = FilesConfig
    classes: int | None = None
    """Number of classes; None for regression."""
    augments = False
    """Whether `prepare` changes training examples at random."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._sources: dict[tuple[Split, Shard], FileSource] = {}
        self._by_record: set[Split] = set()

    @abstractmethod
    def columns(self) -> tuple[DataColumn, ...]:
        """Return the columns of an example, features and label; a weight is added as configured."""

    @abstractmethod
    def example(self, columns: dict[str, tf.Tensor]) -> tuple[Any, tf.Tensor]:
        """Return features and labels, [batch, ...] each, of a batch of `columns`; traced into the input's graph."""

    def prepare(self, columns: dict[str, tf.Tensor], seeds: tf.Tensor | None) -> dict[str, tf.Tensor]:
        """Return `columns` of a batch with their images decoded and, in training, augmented.

        `seeds`, int64 [batch, 2], are None without augmentation.
        """
        del seeds
        return columns

    def assignment(self, split: Split, shard: Shard) -> FileAssignment:
        """Return the files that pipeline `shard` reads for `split`."""
        return data_files.assignment(self.config.data, split, shard, by_record=split in self._by_record)

    def all_files(self, split: Split) -> tuple[str, ...]:
        """Return the files that all pipelines read for `split`."""
        return data_files.assignment(self.config.data, split, Shard(0, 1)).files

    def shard_by_record(self, split: Split, shard: Shard) -> bool:
        """Assign records instead of whole files from now on; return False if that changes nothing.

        Sources that are open are dropped. All pipelines have to do this at the same point.
        """
        if is_partitioned(data_files.patterns(self.config.data, split)) or self.assignment(split, shard).stride > 1:
            return False
        self._by_record.add(split)
        self._sources = {key: source for key, source in self._sources.items() if key[0] is not split}
        return True

    def source(self, split: Split, shard: Shard) -> FileSource:
        """Return the file source of pipeline `shard` for `split`; opened once."""
        key = (split, shard)
        if key not in self._sources:
            data = self.config.data
            part = self.assignment(split, shard)
            kind, gzip = data_files.kind(data, split, part.files)
            options = ReadOptions(
                columns=self._all_columns(),
                format=kind,
                gzip=gzip,
                skip_bad=data.on_bad_record == "Skip",
                interleave=data.interleave,
                cache=data.cache,
            )
            self._sources[key] = open_source(part, options)
        return self._sources[key]

    def examples_by_index(self, split: Split, shard: Shard) -> ExampleSource | None:
        """Return all examples of `split`, of which each member reads its part of each global batch by index.

        None if they are not uncompressed TFRecord files, are partitioned by worker or kept in memory, have bad records
        skipped, or have too many records. Pipelines of one process share the source of pipeline `shard`.
        """
        data = self.config.data
        # Skipping would make each worker check all records; partitioned data is not visible to all (ADR 40).
        if is_partitioned(data_files.patterns(data, split)) or data.cache or data.on_bad_record == "Skip":
            return None
        names = self.all_files(split)
        if data_files.kind(data, split, names) != ("tfrecord", False):
            return None
        source = IndexedSource(names, self._all_columns())
        if source.count > MAX_INDEXED_RECORDS:
            return None
        self._sources[split, shard] = source
        return self._examples_of(source, split, shard)

    def examples(self, split: Split, shard: Shard) -> ExampleSource:
        """Return the examples of pipeline `shard` in `split`; see the base class."""
        return self._examples_of(self.source(split, shard), split, shard)

    def _examples_of(self, source: FileSource, split: Split, shard: Shard) -> ExampleSource:
        weight = self.config.data.weight
        example = autograph_converted(self.example)
        augments = self.augments and split is Split.TRAIN

        def batches(order: BatchOrder) -> tf.data.Dataset:
            buffer = self.config.shuffle_buffer
            shuffled = order if buffer > 1 else replace(order, seed=None)
            uses_seeds = augments and order.seed is not None
            if isinstance(source, IndexedSource):
                indices = source.indices(shuffled)
                return source.read(_with_example_seeds(indices, order) if uses_seeds else indices, order.size)
            dataset = source.ordered_batches(shuffled, buffer)
            return _with_seeds(dataset, order, shard) if uses_seeds else dataset

        def decode(elements: tf.Tensor, seeds: tf.Tensor | None = None) -> tuple[Any, ...]:
            columns = self.prepare(source.decode(elements), seeds)
            features, labels = example(columns)
            return (features, labels) if weight is None else (features, labels, columns[weight])

        return ExampleSource(
            count=source.count,
            batches=batches,
            decode=decode,
            skipped=source.skipped,
            first_skipped=source.first_skipped,
            parallel=tf.data.AUTOTUNE if augments else source.parallel,
            by_index=source.by_index,
        )

    def metrics(self) -> Sequence[AdditiveMetric]:
        """Return the configured metrics."""
        names = self.config.metric_names
        if self.classes is None:
            return build.regression(names, self.label_mean)
        return build.classification(names, self.classes)

    @property
    def label_mean(self) -> float:
        """Mean of the labels of a regression over the training data; 0 if it is not known."""
        return 0.0

    def optimizer(self, scale: float) -> keras.optimizers.Optimizer:
        """Return the configured optimizer; see the base class."""
        return optimizers.make(self.config.optimizer, self.config.learning_rate * scale)

    def ensemble(self, predictions: Sequence[Any]) -> Any:
        """Return the mean of the numbers, or logits of the mean of the classes' probabilities; see the base class."""
        if self.classes is None:
            return super().ensemble(predictions)
        logarithms = tf.stack([tf.nn.log_softmax(logits) for logits in predictions])
        return tf.reduce_logsumexp(logarithms, axis=0) - math.log(len(predictions))

    def check(self) -> None:
        """Read all opened data again, to find the record that made a step fail.

        Raises:
            DataMalformedError: a record is bad; the message names file and record.
            DataMissingError: a file no longer exists.
        """
        for source in self._sources.values():
            source.check()

    def _all_columns(self) -> tuple[DataColumn, ...]:
        weight = self.config.data.weight
        return self.columns() if weight is None else (*self.columns(), DataColumn(weight, "float32", positive=True))


def _with_seeds(batches: tf.data.Dataset, order: BatchOrder, shard: Shard) -> tf.data.Dataset:
    """Return `batches` with a seed for each element, int64 [size, 2]: ((elements, seeds), valid_mask).

    Seeds depend on the seed of the epoch, the pipeline and the position in it, and not on what was read before: after a
    restart the examples are augmented as they would have been.
    """
    numbers = tf.data.Dataset.range(tf.cast(order.skip, tf.int64), tf.int64.max)

    @do_not_convert
    def add(number: tf.Tensor, batch: tuple[tf.Tensor, tf.Tensor]) -> tuple[Any, tf.Tensor]:
        elements, valid_mask = batch
        batch_seed = tf.random.experimental.stateless_fold_in([order.seed, number], shard.index)
        seeds = tf.random.stateless_uniform([order.size, 2], batch_seed, minval=None, maxval=None, dtype=tf.int64)
        return (elements, seeds), valid_mask

    return tf.data.Dataset.zip((numbers, batches)).map(add)


def _with_example_seeds(batches: tf.data.Dataset, order: BatchOrder) -> tf.data.Dataset:
    """Return the same for `batches` of indices: seeds depend on the epoch and the example, not on the members."""

    @do_not_convert
    def add(indices: tf.Tensor, valid_mask: tf.Tensor) -> tuple[Any, tf.Tensor]:
        epoch = tf.fill([order.size], tf.cast(order.seed, tf.int64))
        return (indices, tf.stack([epoch, indices], axis=1)), valid_mask

    return batches.map(add)


_OF_DATA: Final = (
    tf.errors.InvalidArgumentError,
    tf.errors.DataLossError,
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
    tf.errors.UnknownError,
    tf.errors.UnimplementedError,
)


@contextmanager
def explain_data_errors(program: object) -> Iterator[None]:
    """Replace an error in the body that the data of `program` may have caused by one that names the record.

    Raises:
        DataMalformedError: a record is bad; the message names file and record.
        DataMissingError: a file no longer exists.
        ConfigurationError: `dataset()` of a user's program gave no example, or one of another shape, or the members of
            an ensemble read different labels.
    """
    try:
        yield
    except _OF_DATA as error:
        # When another member fails, the error of a collective here may have the type of that member's error.
        if "Collective ops is aborted" not in error.message:
            if OTHER_LABELS in error.message:
                raise ConfigurationError(f"{OTHER_LABELS}; remove what concerns the data from config") from None
            # Reads everything again, once, to name the record: the step's error names none.
            for part in getattr(program, "programs", (program,)):
                if isinstance(part, FromFiles):
                    part.check()
            if (of_dataset := dataset_error(error)) is not None:
                traceback.print_exc()
                raise of_dataset from None
        raise


def label_column(name: str, classes: int | tuple[str, ...]) -> DataColumn:
    """Return the column of labels that are one of `classes`: names, or as many numbers from 0."""
    if isinstance(classes, tuple):
        return DataColumn(name, "string", choices=classes)
    names = ", ".join(f'"{number}"' for number in range(1, min(classes, _MOST_NAMED) + 1))
    names += ", ..." if classes > _MOST_NAMED else ""
    remedy = f"if labels do not begin at 0, list them: {PATH}.classes: [{names}] (strings in TFRecord files)"
    return DataColumn(name, "int64", below=classes, remedy=remedy)


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Return the cross entropy, float32 [batch], of `labels` [batch] and `logits` [batch, classes]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(logits, tf.float32))
