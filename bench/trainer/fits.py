"""The contestants that train by `fit`: an ordinary script for Keras 3 or `tf_keras`, with nothing set for speed."""

from collections.abc import Mapping
from typing import Any, Final

import numpy.typing as npt
import tensorflow as tf

from bench.trainer.turns import Turns

BUFFER: Final = 10_000
SHAPE: Final = (28, 28, 1)
HIDDEN_UNITS: Final = 128
CLASSES: Final = 10


def fit(keras: Any, strategy: Any, data: Mapping[str, Any], steps: int) -> Turns:
    """Start `fit` by a module `keras` or `tf_keras` on the perceptron of the program `image_classification`.

    Args:
        keras: the module.
        strategy: of all workers, or TensorFlow's default one.
        data: the arguments of `fit` that have the data.
        steps: of an epoch.
    """
    with strategy.scope():
        model = compiled(keras)
    turns = Turns()

    def after_epoch(epoch: int, _logs: Any) -> None:
        turns.reached((epoch + 1) * steps)

    callbacks = [keras.callbacks.LambdaCallback(on_epoch_end=after_epoch)]
    turns.start(lambda: model.fit(**data, epochs=10**6, verbose=0, callbacks=callbacks))
    return turns


def as_arrays(images: npt.NDArray[Any], labels: npt.NDArray[Any], batch: int) -> dict[str, Any]:
    """Return the arguments of `fit` for arrays: uint8 [examples, 28, 28, 1], int64 [examples], in global batches."""
    return {"x": images, "y": labels, "batch_size": batch}


def as_data_set(images: npt.NDArray[Any], labels: npt.NDArray[Any], batch: int) -> dict[str, Any]:
    """Return the arguments of `fit` for the same as a data set of single examples, shuffled and batched."""
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(BUFFER).batch(batch)
    return {"x": data.prefetch(tf.data.AUTOTUNE)}


def compiled(keras: Any) -> Any:
    """Return the perceptron, compiled."""
    layers = keras.layers
    image = keras.Input(SHAPE, dtype="uint8")
    hidden = layers.Flatten()(layers.Rescaling(1 / 255)(image))
    hidden = layers.ReLU()(layers.Dense(HIDDEN_UNITS)(hidden))
    model = keras.Model(image, layers.Dense(CLASSES)(hidden))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model
