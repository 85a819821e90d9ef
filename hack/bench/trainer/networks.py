"""The networks of the examples ResNet-50 and transformer, with random data, as they are measured."""

import sys
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdist_cluster.paths import REPOSITORY
from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.programs.base import Program

EXAMPLES: Final = REPOSITORY / "examples"
BATCHES: Final = 20
"""Of the data, which are used again and again."""
TOKENS: Final = 4000
_FILES: Final = {"data": {"train": "none.tfrecord"}}


class Synthetic(Program):
    """A program of an example on random data."""

    def __init__(self, inner: Any, features: npt.NDArray[Any], labels: npt.NDArray[np.int64]) -> None:
        super().__init__(inner.config)
        self._inner = inner
        self.features, self.labels = features, labels

    def model(self) -> Any:
        """Return the network of the example."""
        return self._inner.model()

    def dataset(self, split: Split, shard: Shard) -> tf.data.Dataset:  # noqa: ARG002  it has one split
        """Return the data."""
        return tf.data.Dataset.from_tensor_slices((self.features, self.labels)).shard(shard.count, shard.index)

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the loss of the example."""
        loss: tf.Tensor = self._inner.loss(labels, predictions)
        return loss

    def optimizer(self, scale: float) -> Any:
        """Return the optimizer of the example."""
        return self._inner.optimizer(scale)


def resnet50(pixels: int, batch: int) -> Synthetic:
    """Return ResNet-50 on images of this height and width, in pixels."""
    module = _example("resnet50")
    sgd = {"name": "sgd", "momentum": 0.9, "nesterov": True, "weightDecay": 1e-4}
    config = {"fullSize": True, "classes": 1000, "batchSizePerReplica": batch, "optimizer": sgd}
    inner = module.ResNet50(module.Config.model_validate(_FILES | _ENDLESS | config))
    inner.config = inner.config.model_copy(update={"image_shape": (pixels, pixels, 3)})
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (BATCHES * batch, pixels, pixels, 3)).astype(np.uint8)
    return Synthetic(inner, images, random.integers(0, 1000, len(images)))


def transformer(length: int, batch: int) -> Synthetic:
    """Return the small transformer on texts of up to this number of tokens."""
    module = _example("transformer")
    adamw = {"name": "adamw", "weightDecay": 0.05}
    config = {"maxSequenceLength": length, "batchSizePerReplica": batch, "dropout": 0.1, "optimizer": adamw}
    inner = module.Transformer(module.Config.model_validate(_FILES | _ENDLESS | config))
    inner.vocabulary = [str(number) for number in range(TOKENS)]
    random = np.random.default_rng(0)
    tokens = random.integers(1, TOKENS, (BATCHES * batch, length))
    lengths = random.integers(length // 4, length + 1, len(tokens))
    tokens[np.arange(length)[None] >= lengths[:, None]] = 0
    return Synthetic(inner, tokens, random.integers(0, 2, len(tokens)))


_ENDLESS: Final = {"steps": 10**9}


def _example(name: str) -> Any:
    folder = str(EXAMPLES / name)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return __import__(name)
