"""ResNet-50 (He et al., arXiv 1512.03385) on TFRecord files in the format of ImageNet, trained as for ImageNet.

Reading by index, decoding after the shuffle on all cores, and augmentation are the same as in `image_classification`.
Here are the network, the loss with smoothed labels, and SGD with moving averages of the weights, warm-up and cosine
decay.
"""

from typing import Any, Final, NamedTuple

import keras
import records
import tensorflow as tf
from pydantic import Field

from tfdist.programs.image_classification import ImageClassificationConfig
from tfdist_trainer.programs.image_classification import ImageClassification

EXPANSION: Final = 4
"""Channels of a block's result for each of its own."""


class Size(NamedTuple):
    """Height and width of the images, channels of the first stage, and blocks of each stage."""

    pixels: int
    channels: int
    blocks: tuple[int, int, int, int]


FULL: Final = Size(224, 64, (3, 4, 6, 3))
SMALL: Final = Size(32, 16, (1, 1, 1, 1))
"""The same with fewer and narrower blocks on small images."""


class Config(ImageClassificationConfig):
    """What there is to set in addition to `image_classification`."""

    full_size: bool = False
    """ResNet-50 on images of 224 pixels, instead of a network of 14 layers on images of 32."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """The part of a label that is shared by all classes (Szegedy et al., arXiv 1512.00567)."""
    ema_momentum: float = Field(default=0.99, gt=0, lt=1)
    """Of the moving averages of the weights, which the evaluation and the last checkpoint have."""
    write_records_to: str | None = None
    """A folder. `data` are then `.npz` files of Fashion-MNIST, which are written there in the format of ImageNet."""


class ResNet50(ImageClassification):
    """Classifies images."""

    Config = Config

    def __init__(self, config: Config) -> None:
        size = FULL if config.full_size else SMALL
        config = config.model_copy(update={"image_shape": (size.pixels, size.pixels, 3)})
        if config.write_records_to is not None:
            config = config.model_copy(update={"data": records.make(config.data, config.write_records_to)})
        super().__init__(config)
        self.size = size

    def model(self) -> keras.Model:
        """Return a model from uint8 images to logits."""
        layers = keras.layers
        image = keras.Input(self.config.image_shape, dtype="uint8")
        hidden = layers.Rescaling(1 / 127.5, offset=-1)(image)
        hidden = convolve(hidden, self.size.channels, 7, 2)
        hidden = layers.MaxPooling2D(3, 2, padding="same")(hidden)
        for stage, blocks in enumerate(self.size.blocks):
            for number in range(blocks):
                stride = 2 if stage and not number else 1
                hidden = block(hidden, self.size.channels * 2**stage, stride)
        hidden = layers.GlobalAveragePooling2D()(hidden)
        return keras.Model(image, layers.Dense(self.config.classes, dtype="float32")(hidden))

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the cross entropy of each example with its smoothed label."""
        share = self.config.label_smoothing
        truth = tf.one_hot(labels, self.config.classes) * (1 - share) + share / self.config.classes
        return tf.nn.softmax_cross_entropy_with_logits(truth, predictions)

    def optimizer(self, scale: float) -> keras.optimizers.Optimizer:
        """Return the configured optimizer with moving averages, and without decay of biases and normalization."""
        configured = super().optimizer(scale)
        settings = configured.get_config() | {"use_ema": True, "ema_momentum": self.config.ema_momentum}
        optimizer = type(configured).from_config(settings)
        if settings.get("weight_decay"):
            optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
        return optimizer


def block(given: Any, channels: int, stride: int) -> Any:
    """Return `given` plus three convolutions of it; the second one has the stride (arXiv 1812.01187, ResNet-B)."""
    wide = channels * EXPANSION
    hidden = convolve(convolve(given, channels, 1), channels, 3, stride)
    hidden = convolve(hidden, wide, 1, activate=False, scale="zeros")
    if stride > 1 or given.shape[-1] != wide:
        given = convolve(given, wide, 1, stride, activate=False)
    return keras.layers.ReLU()(keras.layers.Add()([given, hidden]))


def convolve(
    given: Any, channels: int, width: int, stride: int = 1, *, activate: bool = True, scale: str = "ones"
) -> Any:
    """Return a convolution with batch normalization. With the scale "zeros" a block begins as the identity."""
    layers = keras.layers
    kernel = {"use_bias": False, "kernel_initializer": "he_normal"}
    hidden = layers.Conv2D(channels, width, strides=stride, padding="same", **kernel)(given)
    # cuDNN takes no smaller epsilon, and Keras' default is larger: with this one the kernel is the same on all devices.
    hidden = layers.BatchNormalization(momentum=0.9, epsilon=1.001e-5, gamma_initializer=scale)(hidden)
    return layers.ReLU()(hidden) if activate else hidden
