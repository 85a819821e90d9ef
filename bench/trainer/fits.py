"""The contestants that train by `fit`: an ordinary script for Keras 3 or `tf_keras`, with nothing set for speed."""

from typing import Any, Final

import numpy.typing as npt
import tensorflow as tf

from bench.trainer.turns import Turns

BUFFER: Final = 10_000
HIDDEN_UNITS: Final = 128
CLASSES: Final = 10


def fit(keras: Any, strategy: Any, images: npt.NDArray[Any], labels: npt.NDArray[Any], batch: int) -> Turns:
    """Start `fit` by a module `keras` or `tf_keras` on the perceptron of the program `image_classification`.

    Args:
        keras: the module.
        strategy: of all workers, or TensorFlow's default one.
        images: uint8 [examples, 28, 28, 1].
        labels: int64 [examples].
        batch: examples of a global batch.
    """
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(BUFFER).batch(batch)
    data = data.prefetch(tf.data.AUTOTUNE)
    with strategy.scope():
        model = _perceptron(keras, images.shape[1:])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, metrics=["accuracy"])
    turns, steps = Turns(), -(-len(images) // batch)

    def after_epoch(epoch: int, _logs: Any) -> None:
        turns.reached((epoch + 1) * steps)

    callbacks = [keras.callbacks.LambdaCallback(on_epoch_end=after_epoch)]
    turns.start(lambda: model.fit(data, epochs=10**6, verbose=0, callbacks=callbacks))
    return turns


def _perceptron(keras: Any, shape: tuple[int, ...]) -> Any:
    layers = keras.layers
    image = keras.Input(shape, dtype="uint8")
    hidden = layers.Flatten()(layers.Rescaling(1 / 255)(image))
    hidden = layers.ReLU()(layers.Dense(HIDDEN_UNITS)(hidden))
    return keras.Model(image, layers.Dense(CLASSES)(hidden))
