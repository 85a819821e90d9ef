"""A variational autoencoder whose layer adds the divergence of its codes to the loss."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(10)


class Sampling(keras.layers.Layer):
    """Draws a code from its mean and the logarithm of its variance."""

    def __init__(self):
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator(1337)

    def call(self, inputs):
        mean, log_variance = inputs
        divergence = -0.5 * keras.ops.mean(1 + log_variance - mean**2 - keras.ops.exp(log_variance))
        self.add_loss(0.1 * divergence)
        noise = keras.random.normal(keras.ops.shape(mean), seed=self.seed_generator)
        return mean + keras.ops.exp(0.5 * log_variance) * noise


random = np.random.RandomState(0)
x = random.uniform(size=(256, 1)) * np.linspace(0.0, 1.0, 20)[None]
x = x.astype("float32")

with strategy.scope():
    inputs = keras.Input((20,))
    hidden = keras.layers.Dense(16, activation="relu")(inputs)
    mean = keras.layers.Dense(2)(hidden)
    log_variance = keras.layers.Dense(2)(hidden)
    code = Sampling()([mean, log_variance])
    outputs = keras.layers.Dense(20)(keras.layers.Dense(16, activation="relu")(code))
    model = keras.Model(inputs, outputs)
    model.compile(optimizer="adam", loss="mse")

history = model.fit(x, x, batch_size=32, epochs=3, verbose=2)
