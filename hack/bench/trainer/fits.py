"""What `fit` trains here: the models of the program `image_classification`, with nothing set for speed."""

from typing import Any, Final

import numpy.typing as npt
import tensorflow as tf

BUFFER: Final = 10_000
SHAPE: Final = (28, 28, 1)
HIDDEN_UNITS: Final = 128
CLASSES: Final = 10


def as_arrays(images: npt.NDArray[Any], labels: npt.NDArray[Any], batch: int) -> dict[str, Any]:
    """Return the arguments of `fit` for arrays: uint8 [examples, 28, 28, 1], int64 [examples], in global batches."""
    return {"x": images, "y": labels, "batch_size": batch}


def as_data_set(images: npt.NDArray[Any], labels: npt.NDArray[Any], batch: int) -> dict[str, Any]:
    """Return the arguments of `fit` for the same as a data set of single examples, shuffled and batched."""
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(BUFFER).batch(batch)
    return {"x": data.prefetch(tf.data.AUTOTUNE)}


def compiled(keras: Any, model: Any = None) -> Any:
    """Return `model`, or the perceptron of a module `keras` or `tf_keras`, compiled."""
    model = model or _perceptron(keras)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


def _perceptron(keras: Any) -> Any:
    layers = keras.layers
    image = keras.Input(SHAPE, dtype="uint8")
    hidden = layers.Flatten()(layers.Rescaling(1 / 255)(image))
    hidden = layers.ReLU()(layers.Dense(HIDDEN_UNITS)(hidden))
    return keras.Model(image, layers.Dense(CLASSES)(hidden))
