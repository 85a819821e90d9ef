"""Built-in programs: their examples are columns of files, and metrics and optimizer are as configured."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import tensorflow as tf

from tfdist_trainer.autograph import translated
from tfdist_trainer.data.batches import Order
from tfdist_trainer.data.columns import Column
from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.data.pipeline import Examples
from tfdist_trainer.data.source import Reading, Source, open_source
from tfdist_trainer.kerases import keras
from tfdist_trainer.metrics import build
from tfdist_trainer.metrics.sums import Metric
from tfdist_trainer.programs import optimizers
from tfdist_trainer.programs.base import BuiltIn
from tfdist_trainer.programs.data_config import FilesConfig


class FromFiles(BuiltIn):
    """A program that says which columns it reads and what it makes of them."""

    Config = FilesConfig
    classes: int | None = None
    """Number of classes; None predicts numbers."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._sources: dict[tuple[Split, Shard], Source] = {}

    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """Return the columns of an example, features and label; a weight is added as configured."""

    @abstractmethod
    def example(self, columns: dict[str, tf.Tensor]) -> tuple[Any, tf.Tensor]:
        """Return features and labels, [batch, ...] each, of a batch of `columns`; traced into the input's graph."""

    def source(self, split: Split, shard: Shard) -> Source:
        """Return what pipeline `shard` reads of `split`; opened once."""
        key = (split, shard)
        if key not in self._sources:
            data = self.config.data
            part = data.part(split, shard)
            kind, gzip = data.kind(split, part.files)
            reading = Reading(
                columns=self._all_columns(),
                format=kind,
                gzip=gzip,
                skip_bad=data.on_bad_record == "Skip",
                interleave=data.interleave,
                cache=data.cache,
            )
            self._sources[key] = open_source(part, reading)
        return self._sources[key]

    def examples(self, split: Split, shard: Shard) -> Examples:
        """Return what pipeline `shard` reads of `split`; see the base class."""
        source = self.source(split, shard)
        weight = self.config.data.weight
        example = translated(self.example)

        def batches(order: Order) -> tf.data.Dataset:
            buffer = self.config.shuffle_buffer
            return source.ordered(order if buffer > 1 else replace(order, seed=None), buffer)

        def decode(elements: tf.Tensor) -> tuple[Any, ...]:
            columns = source.decode(elements)
            features, labels = example(columns)
            return (features, labels) if weight is None else (features, labels, columns[weight])

        return Examples(
            count=source.count,
            batches=batches,
            decode=decode,
            skipped=source.skipped,
            parallel=source.parallel,
        )

    def metrics(self) -> Sequence[Metric]:
        """Return the configured metrics."""
        names = self.config.metric_names
        return build.regression(names) if self.classes is None else build.classification(names, self.classes)

    def optimizer(self, scale: float) -> keras.optimizers.Optimizer:
        """Return the configured optimizer; see the base class."""
        return optimizers.make(self.config.optimizer, self.config.learning_rate * scale)

    def check(self) -> None:
        """Read all data that was opened anew, to find what made a step fail.

        Raises:
            DataMalformedError: with the file and the record.
            DataMissingError: with the file, when it is gone.
        """
        for source in self._sources.values():
            source.check()

    def _all_columns(self) -> tuple[Column, ...]:
        weight = self.config.data.weight
        return self.columns() if weight is None else (*self.columns(), Column(weight, "float32", positive=True))


_OF_DATA: Final = (
    tf.errors.InvalidArgumentError,
    tf.errors.DataLossError,
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
)


@contextmanager
def explained(program: object) -> Iterator[None]:
    """Say which record it was when a step inside fails because of the data of `program`.

    Raises:
        DataMalformedError: with the file and the record.
        DataMissingError: with the file, when it is gone.
    """
    try:
        yield
    except _OF_DATA as error:
        # What a collective says when another member fails can have that member's kind of error.
        if isinstance(program, FromFiles) and "Collective ops is aborted" not in error.message:
            program.check()
        raise


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Return the cross entropy, float32 [batch], of `labels` [batch] and `logits` [batch, classes]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(logits, tf.float32))
