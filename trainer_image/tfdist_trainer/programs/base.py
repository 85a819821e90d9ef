"""The interface of a program, which the training loop and the evaluation use and authors of programs subclass.

Built-in programs and users' programs are subclasses alike. The trainer creates one object on each replica, calls each
method once (in the strategy's scope where variables are created), and traces `loss` and the metrics into its graph.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from tfdist.programs.config import ProgramConfig
from tfdist_trainer.data.batches import BatchOrder, streamed_batches
from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.data.pipeline import ExampleSource
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.keras_compat import keras
from tfdist_trainer.metrics.additive import AdditiveMetric
from tfdist_trainer.programs.config import OpenConfig


class Program(ABC):
    """A model with its data, loss, metrics and optimizer.

    Args:
        config: `training.config` as an object of `Config`.
    """

    Config: ClassVar[type[ProgramConfig]] = OpenConfig
    """Model of `training.config`. With a subclass of `ProgramConfig` its fields are validated, and unknown fields
    rejected; the default accepts any field, and `self.config.width` is `training.config.width`."""

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def model(self) -> keras.Model:
        """Return a new model from features [batch, ...] to predictions; called in the strategy's scope.

        One that is not built is called with zeros in the shapes of `dataset`.
        """

    @abstractmethod
    def dataset(self, split: Split, shard: Shard) -> tf.data.Dataset:
        """Return the unbatched examples of `split` that pipeline `shard` reads, in a fixed order and finite.

        Each is `(features, label)` or `(features, label, weight)`. All pipelines together give every example
        once: `dataset.shard(shard.count, shard.index)` does so for any data set. The trainer shuffles, batches,
        repeats and prefetches.
        """

    @abstractmethod
    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the loss of each example, float32 [batch]. The trainer computes the weighted mean."""

    def metrics(self) -> Sequence[keras.metrics.Metric | AdditiveMetric]:
        """Return new metrics, reported in addition to the loss by training and evaluation; by default none."""
        return ()

    def optimizer(self, scale: float) -> keras.optimizers.Optimizer:
        """Return a new optimizer; called in the strategy's scope. By default Adam of `learningRate` times `scale`.

        Args:
            scale: global batch size divided by `referenceBatchSize`; 1 if that is not set.
        """
        return keras.optimizers.Adam(self.config.learning_rate * scale)

    def serving_model(self, model: keras.Model) -> keras.Model:
        """Return the model that `training.export` writes, from `model` with the trained weights; by default itself."""
        return model

    def ensemble(self, predictions: Sequence[Any]) -> Any:
        """Return the predictions of an ensemble from its members', [batch, ...] each; by default their mean.

        That is right for probabilities and for numbers. A model that returns logits needs the mean of their
        probabilities: `tf.math.log(tf.reduce_mean([tf.nn.softmax(each) for each in predictions], axis=0))`.
        """
        return tf.nest.map_structure(lambda *parts: tf.reduce_mean(tf.stack(parts), axis=0), *predictions)

    def examples(self, split: Split, shard: Shard) -> ExampleSource:
        """Return the examples of pipeline `shard` in `split`, counted; by default from `dataset`.

        A data set of unknown cardinality is read once to count it.

        Raises:
            ConfigurationError: the data set is infinite.
        """
        dataset = self.dataset(split, shard)
        buffer = self.config.shuffle_buffer

        def batches(order: BatchOrder) -> tf.data.Dataset:
            shuffles = order.seed is not None and buffer > 1
            shuffled = dataset.shuffle(buffer, seed=order.seed, reshuffle_each_iteration=False) if shuffles else dataset
            return streamed_batches(shuffled, order)

        return ExampleSource(count=_count(dataset, split), batches=batches, decode=_as_is)


class BuiltIn(Program):
    """A program of this package: it implements `examples`, and decodes whole batches."""

    @abstractmethod
    def examples(self, split: Split, shard: Shard) -> ExampleSource:
        """Return the examples of pipeline `shard` in `split`, counted and checked.

        Raises:
            DataMissingError: a file does not exist.
            DataMalformedError: a file does not match the configuration.
        """

    def dataset(self, split: Split, shard: Shard) -> tf.data.Dataset:
        """Return the decoded examples one by one, in the files' order; see the base class."""
        examples = self.examples(split, shard)
        return examples.batches(BatchOrder(1)).map(lambda elements, _valid_mask: examples.decode(elements)).unbatch()


def _count(dataset: tf.data.Dataset, split: Split) -> int:
    cardinality = int(dataset.cardinality())
    if cardinality == tf.data.INFINITE_CARDINALITY:
        raise ConfigurationError(
            f"training.program: dataset() of split {split} is infinite; return each example once, without repeat()"
        )
    if cardinality != tf.data.UNKNOWN_CARDINALITY:
        return cardinality
    return int(dataset.reduce(tf.constant(0, tf.int64), lambda count, *_: count + 1))


def _as_is(*element: tf.Tensor) -> tuple[tf.Tensor, ...]:
    return element
