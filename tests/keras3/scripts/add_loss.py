"""A layer that adds a loss of its own: the mean activation shall be small."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(11)


class Sparsity(keras.layers.Layer):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def call(self, inputs):
        self.add_loss(self.rate * keras.ops.mean(keras.ops.abs(inputs)))
        return inputs


random = np.random.RandomState(0)
x = random.normal(size=(250, 6)).astype("float32")
y = np.abs(x[:, :1])

with strategy.scope():
    inputs = keras.Input((6,))
    hidden = Sparsity(0.3)(keras.layers.Dense(12, activation="relu")(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.compile(optimizer="adam", loss="mse")

# The last batch has 26 examples, so that the parts of two workers are not of one size.
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
history = model.fit(dataset, epochs=3, verbose=2)
scores = model.evaluate(dataset, verbose=0)
