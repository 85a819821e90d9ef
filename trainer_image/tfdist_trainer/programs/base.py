"""What the training loop and the evaluation need of a program."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import keras
import tensorflow as tf

from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.data.pipeline import Examples
from tfdist_trainer.metrics.sums import WeightedMean


class Program(ABC):
    """A model with its data, loss, metrics and optimizer."""

    @abstractmethod
    def model(self) -> keras.Model:
        """Return a new, built model; called in the strategy's scope."""

    @abstractmethod
    def examples(self, split: Split, shard: Shard) -> Examples:
        """Return what pipeline `shard` reads of `split`, counted and checked.

        Raises:
            DataMissingError: a file does not exist.
            DataMalformedError: a file is not what the configuration says.
        """

    @abstractmethod
    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the loss of each example, float32 [batch]."""

    @abstractmethod
    def metrics(self) -> Sequence[WeightedMean]:
        """Return the metrics that training and evaluation report beside the loss."""

    @abstractmethod
    def optimizer(self) -> keras.optimizers.Optimizer:
        """Return a new optimizer; called in the strategy's scope."""
