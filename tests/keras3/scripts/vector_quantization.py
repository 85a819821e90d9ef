"""A vector-quantized autoencoder: each place of an image becomes the nearest entry of a learned codebook."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(57)

ENTRIES = 16
WIDTH = 4


class Codebook(keras.layers.Layer):
    def __init__(self, entries, width, commitment=0.25, **options):
        super().__init__(**options)
        self.entries, self.width, self.commitment = entries, width, commitment

    def build(self, input_shape):
        self.table = self.add_weight(shape=(self.width, self.entries), initializer="random_uniform", name="table")

    def nearest(self, flat):
        distances = (
            ops.sum(flat**2, axis=1, keepdims=True)
            + ops.sum(self.table**2, axis=0)
            - 2.0 * ops.matmul(flat, self.table)
        )
        return ops.argmin(distances, axis=1)

    def call(self, x):
        flat = ops.reshape(x, (-1, self.width))
        chosen = ops.one_hot(self.nearest(flat), self.entries)
        quantized = ops.reshape(ops.matmul(chosen, ops.transpose(self.table)), ops.shape(x))
        self.add_loss(self.commitment * ops.mean((ops.stop_gradient(quantized) - x) ** 2))
        self.add_loss(ops.mean((quantized - ops.stop_gradient(x)) ** 2))
        # The gradient goes straight through to the encoder.
        return x + ops.stop_gradient(quantized - x)


class Trainer(keras.Model):
    def __init__(self, autoencoder, variance):
        super().__init__()
        self.autoencoder = autoencoder
        self.variance = variance
        self.trackers = [keras.metrics.Mean(name=name) for name in ("loss", "reconstruction_loss", "codebook_loss")]

    @property
    def metrics(self):
        return self.trackers

    def train_step(self, x):
        with tf.GradientTape() as tape:
            reconstruction_loss = ops.mean((x - self.autoencoder(x, training=True)) ** 2) / self.variance
            codebook_loss = sum(self.autoencoder.losses)
            loss = reconstruction_loss + codebook_loss
        gradients = tape.gradient(loss, self.autoencoder.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.autoencoder.trainable_variables, strict=True))
        for tracker, value in zip(self.trackers, (loss, reconstruction_loss, codebook_loss), strict=True):
            tracker.update_state(value)
        return {tracker.name: tracker.result() for tracker in self.trackers}


random = np.random.RandomState(0)
images = random.uniform(0.0, 0.1, (128, 8, 8, 1)).astype("float32")
for image in images:
    row, column = random.randint(0, 5, 2)
    image[row : row + 3, column : column + 3] += 0.9
images -= images.mean()

with strategy.scope():
    encoder = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
            keras.layers.Conv2D(WIDTH, 1),
        ]
    )
    codebook = Codebook(ENTRIES, WIDTH, name="codebook")
    decoder = keras.Sequential(
        [
            keras.Input((4, 4, WIDTH)),
            keras.layers.Conv2DTranspose(8, 3, strides=2, padding="same", activation="relu"),
            keras.layers.Conv2DTranspose(1, 3, padding="same"),
        ]
    )
    inputs = keras.Input((8, 8, 1))
    autoencoder = keras.Model(inputs, decoder(codebook(encoder(inputs))))
    trainer = Trainer(autoencoder, float(images.var()))
    trainer.compile(optimizer=keras.optimizers.Adam(0.002))

history = trainer.fit(images, epochs=3, batch_size=32, verbose=2)
features = encoder.predict(images[:1], verbose=0)
result_codes = np.asarray(codebook.nearest(features.reshape(-1, WIDTH))).reshape(4, 4)
predictions = autoencoder.predict(images[:5], verbose=0)
