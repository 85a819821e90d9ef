"""A Keras script whose steps take as long as `slow_steps` states, without an end, until it is killed."""

import os

import keras
import numpy as np
import tensorflow as tf
from support.slow_steps import EXAMPLE_SECONDS, SECONDS, asleep, hurry, wait_in

from tfdist_trainer import keras_import

keras_import.prepare()  # as the import of Keras does it in a process that is no fork
hurry()


def loss(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    losses = tf.reduce_sum((labels - predictions) ** 2, axis=-1)
    return wait_in(losses) if SECONDS in os.environ else losses


with tf.distribute.MultiWorkerMirroredStrategy().scope():
    model = keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1)])
    model.compile("sgd", loss)
x = np.linspace(-1, 1, 8, dtype=np.float32)[:, np.newaxis]
examples = tf.data.Dataset.from_tensor_slices((x, 3 * x)).repeat(1000)
if EXAMPLE_SECONDS in os.environ:
    examples = asleep(examples, 0)
model.fit(examples.batch(4), epochs=1_000_000, verbose=0)
