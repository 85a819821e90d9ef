"""Image classification with a small network, or with a saved Keras model."""

from typing import Any

import tensorflow as tf

from tfdist.programs.image_classification import ImageClassificationConfig
from tfdist_trainer.data import images
from tfdist_trainer.data.columns import DataColumn
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.keras_compat import keras
from tfdist_trainer.programs import model_file
from tfdist_trainer.programs.config import PATH
from tfdist_trainer.programs.from_files import FromFiles, cross_entropy
from tfdist_trainer.programs.logits import logits_of, with_softmax

CONVOLUTIONS = ((16, 5), (32, 3))
"""Filters and size of the convolutions of `cnn`. Each halves height and width by its stride: on CPUs about twice
as fast as pooling, at equal accuracy."""

HIDDEN_UNITS = {"mlp": 128, "cnn": 64}
RESNET_FILTERS = (16, 32, 64)


class ImageClassification(FromFiles):
    """The program `image_classification`."""

    Config = ImageClassificationConfig

    def __init__(self, config: ImageClassificationConfig) -> None:
        super().__init__(config)
        self.classes = config.classes
        self.augments = bool(config.augmentation)
        self._encoded = config.image_format == "Encoded"

    def columns(self) -> tuple[DataColumn, ...]:
        """Return the image and the label."""
        name, shape, first = self.config.image_column, self.config.image_shape, self.config.label_offset
        image = DataColumn(name, "encoded", channels=shape[2]) if self._encoded else DataColumn(name, "uint8", shape)
        other = 0 if first else 1
        remedy = f"if labels begin at {other}, set {PATH}.labelOffset: {other}"
        label = DataColumn(
            self.config.label_column, "int64", minimum=first, below=first + self.config.classes, remedy=remedy
        )
        return image, label

    def prepare(self, columns: dict[str, tf.Tensor], seeds: tf.Tensor | None) -> dict[str, tf.Tensor]:
        """Return `columns` with images as uint8 [batch, *imageShape]; see the base class."""
        augmentation = frozenset[str]() if seeds is None else frozenset(self.config.augmentation)
        if not (self._encoded or augmentation):
            return columns
        name = self.config.image_column
        prepared = images.prepare(columns[name], seeds, self.config.image_shape, augmentation)
        return {**columns, name: prepared}

    def example(self, columns: dict[str, tf.Tensor]) -> tuple[Any, tf.Tensor]:
        """Return images, uint8 [batch, *imageShape], and labels, int64 [batch], from 0."""
        return columns[self.config.image_column], columns[self.config.label_column] - self.config.label_offset

    def model(self) -> keras.Model:
        """Return a model from uint8 images [batch, *imageShape] to logits [batch, classes]."""
        if self.config.model.endswith(".keras"):
            return logits_of(self._load_saved_model(), f"{PATH}.model")[0]
        # Pixels are scaled inside the model, so that serving takes the same bytes as training.
        image = keras.layers.Input(self.config.image_shape, dtype="uint8")
        hidden = keras.layers.Rescaling(1 / 255)(image)
        hidden = self._resnet(hidden) if self.config.model == "resnet" else self._plain(hidden)
        if self.config.dropout:
            hidden = keras.layers.Dropout(self.config.dropout)(hidden)
        return keras.Model(image, keras.layers.Dense(self.config.classes, dtype="float32")(hidden))

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the cross entropy, float32 [batch], of `labels` [batch] and logits [batch, classes]."""
        return cross_entropy(labels, predictions)

    def serving_model(self, model: keras.Model) -> keras.Model:
        """Return `model`; with the softmax that ends the file from which it was loaded, if there is one."""
        if not self.config.model.endswith(".keras"):
            return model
        _, had_softmax = logits_of(self._load_saved_model(), f"{PATH}.model")
        return with_softmax(model) if had_softmax else model

    def _plain(self, hidden: Any) -> Any:
        bias = not self.config.batch_normalization  # batch normalization has its own offset
        layers: list[Any] = []
        if self.config.model == "cnn":
            for filters, size in CONVOLUTIONS:
                layers += self._hidden(keras.layers.Conv2D(filters, size, strides=2, padding="same", use_bias=bias))
        layers.append(keras.layers.Flatten())
        layers += self._hidden(keras.layers.Dense(HIDDEN_UNITS[self.config.model], use_bias=bias))
        for layer in layers:
            hidden = layer(hidden)
        return hidden

    def _hidden(self, layer: keras.layers.Layer) -> list[keras.layers.Layer]:
        normalize = [keras.layers.BatchNormalization()] if self.config.batch_normalization else []
        return [layer, *normalize, keras.layers.ReLU()]

    def _resnet(self, hidden: Any) -> Any:
        hidden = _convolve(hidden, RESNET_FILTERS[0], activate=True)
        for stage, filters in enumerate(RESNET_FILTERS):
            for block in range(self.config.resnet_blocks):
                stride = 2 if stage and not block else 1
                inner = _convolve(hidden, filters, stride, activate=True)
                inner = _convolve(inner, filters, activate=False)
                if stride > 1:
                    hidden = _convolve(hidden, filters, stride, size=1, activate=False)
                hidden = keras.layers.ReLU()(keras.layers.Add()([hidden, inner]))
        return keras.layers.GlobalAveragePooling2D()(hidden)

    def _load_saved_model(self) -> keras.Model:
        path, field = self.config.model, f"{PATH}.model"
        model = model_file.load(path, field)
        expected = (None, *self.config.image_shape), (None, self.config.classes)
        if not _accepts(model.input_shape, expected[0]) or model.output_shape != expected[1]:
            raise ConfigurationError(
                f"{field}: {path} is from {model.input_shape} to {model.output_shape}, "
                f"expected from {expected[0]} to {expected[1]}: images of imageShape to logits of classes"
            )
        return model


def _accepts(shape: Any, images: tuple[int | None, ...]) -> bool:
    """Return whether an input of `shape`, of which sizes may be None, accepts `images`; several inputs do not."""
    return len(shape) == len(images) and all(
        size in {None, expected} for size, expected in zip(shape, images, strict=True)
    )


def _convolve(hidden: Any, filters: int, stride: int = 1, size: int = 3, *, activate: bool) -> Any:
    layer = keras.layers.Conv2D(
        filters, size, strides=stride, padding="same", use_bias=False, kernel_initializer="he_normal"
    )
    hidden = keras.layers.BatchNormalization()(layer(hidden))
    return keras.layers.ReLU()(hidden) if activate else hidden
