"""A Keras script whose steps take as long as `slow_steps` states, without an end, until it is killed."""

import keras
import numpy as np
import tensorflow as tf
from support.slow_steps import hurry, wait_in

from tfdist_trainer import keras_import

keras_import.prepare()  # as the import of Keras does it in a process that is no fork
hurry()


def loss(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    return wait_in(tf.reduce_sum((labels - predictions) ** 2, axis=-1))


with tf.distribute.MultiWorkerMirroredStrategy().scope():
    model = keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1)])
    model.compile("sgd", loss)
x = np.linspace(-1, 1, 8, dtype=np.float32)[:, np.newaxis]
examples = tf.data.Dataset.from_tensor_slices((x, 3 * x)).repeat(1000)
model.fit(examples.batch(6), epochs=1_000_000, verbose=0)
