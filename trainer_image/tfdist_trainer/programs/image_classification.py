"""Classify images of one size with a small network, from `.npz` or TFRecord files."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from tfdist_trainer.data import npz, tfrecord
from tfdist_trainer.data.files import Part, Shard, Split, plan
from tfdist_trainer.data.pipeline import Examples
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.metrics.sums import WeightedMean, correct
from tfdist_trainer.programs.base import BuiltIn
from tfdist_trainer.programs.image_classification_config import ImageClassificationConfig

CONVOLUTIONS = ((16, 5), (32, 3))
"""Filters and size of the convolutions of `cnn`. Each halves height and width by its stride: on a processor that
is about twice as fast as pooling, at equal accuracy."""

HIDDEN_UNITS = {"mlp": 128, "cnn": 64}


class ImageClassification(BuiltIn):
    """The program `image_classification`."""

    Config = ImageClassificationConfig

    def __init__(self, config: ImageClassificationConfig) -> None:
        super().__init__(config)
        self.spec = npz.ImageSpec(shape=config.image_shape, classes=config.classes)

    def model(self) -> keras.Model:
        """Return a model from uint8 images [batch, *imageShape] to logits [batch, classes]."""
        # Pixels are scaled inside the model: whoever serves it sends the bytes that training read.
        layers = [keras.layers.Input(self.config.image_shape, dtype="uint8"), keras.layers.Rescaling(1 / 255)]
        if self.config.model == "cnn":
            for filters, size in CONVOLUTIONS:
                layer = keras.layers.Conv2D(filters, size, strides=2, padding="same", use_bias=self._bias)
                layers += self._hidden(layer)
        layers.append(keras.layers.Flatten())
        layers += self._hidden(keras.layers.Dense(HIDDEN_UNITS[self.config.model], use_bias=self._bias))
        if self.config.dropout:
            layers.append(keras.layers.Dropout(self.config.dropout))
        return keras.Sequential([*layers, keras.layers.Dense(self.config.classes, dtype="float32")])

    def examples(self, split: Split, shard: Shard) -> Examples:
        """Return uint8 images [height, width, channels] and labels of one pipeline; see the base class."""
        files = self.config.files(split)
        kinds = {(self.config.data.format_of(name), self.config.data.is_gzip(name)) for name in files}
        if len(kinds) > 1:
            raise ConfigurationError(
                f"training.config.data.{split}: matches files of different formats or compressions: "
                f"{files[0]} ... {files[-1]}; give them one by one or set data.format"
            )
        kind, gzip = kinds.pop()
        part = plan(files, shard)
        return self._npz(part) if kind == "npz" else self._tfrecord(part, gzip=gzip)

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the cross entropy, float32 [batch], of `labels` [batch] and logits [batch, classes]."""
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, predictions)

    def metrics(self) -> Sequence[WeightedMean]:
        """Return the accuracy."""
        return [WeightedMean("accuracy", correct)]

    @property
    def _bias(self) -> bool:
        return not self.config.batch_normalization  # which has an offset of its own

    def _hidden(self, layer: keras.layers.Layer) -> list[keras.layers.Layer]:
        normalize = [keras.layers.BatchNormalization()] if self.config.batch_normalization else []
        return [layer, *normalize, keras.layers.ReLU()]

    def _npz(self, part: Part) -> Examples:
        images, labels = npz.load(part, self.spec)
        rows = tf.data.Dataset.from_tensor_slices((tf.constant(images), tf.constant(labels)))
        return Examples(
            count=len(labels),
            ordered=lambda seed: self._shuffle(rows, seed),
            decode=_identity,
        )

    def _tfrecord(self, part: Part, *, gzip: bool) -> Examples:
        def ordered(seed: tf.Tensor | None) -> tf.data.Dataset:
            order = None
            if seed is not None:
                dice = tf.random.stateless_uniform([len(part.files)], seed=[seed, 0])
                order = tf.argsort(dice)
            return self._shuffle(tfrecord.records(part, gzip=gzip, order=order), seed)

        return Examples(
            count=tfrecord.count(part, self.spec, gzip=gzip),
            ordered=ordered,
            decode=lambda serialized: tfrecord.decode(serialized, self.spec),
        )


def _identity(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return image, label
