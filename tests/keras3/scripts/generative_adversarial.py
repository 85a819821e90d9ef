"""A generative adversarial network: one `train_step` with two optimizers."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(12)

LATENT = 4


class GAN(keras.Model):
    def __init__(self, discriminator, generator):
        super().__init__()
        self.discriminator = discriminator
        self.generator = generator
        self.seed_generator = keras.random.SeedGenerator(1337)
        self.d_loss_tracker = keras.metrics.Mean(name="d_loss")
        self.g_loss_tracker = keras.metrics.Mean(name="g_loss")

    @property
    def metrics(self):
        return [self.d_loss_tracker, self.g_loss_tracker]

    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super().compile()
        self.d_optimizer = d_optimizer
        self.g_optimizer = g_optimizer
        self.loss_fn = loss_fn

    def train_step(self, real):
        count = tf.shape(real)[0]
        noise = keras.random.normal((count, LATENT), seed=self.seed_generator)
        both = tf.concat([self.generator(noise), real], axis=0)
        labels = tf.concat([tf.ones((count, 1)), tf.zeros((count, 1))], axis=0)
        with tf.GradientTape() as tape:
            d_loss = self.loss_fn(labels, self.discriminator(both))
        gradients = tape.gradient(d_loss, self.discriminator.trainable_weights)
        self.d_optimizer.apply(gradients, self.discriminator.trainable_weights)

        noise = keras.random.normal((count, LATENT), seed=self.seed_generator)
        with tf.GradientTape() as tape:
            g_loss = self.loss_fn(tf.zeros((count, 1)), self.discriminator(self.generator(noise)))
        gradients = tape.gradient(g_loss, self.generator.trainable_weights)
        self.g_optimizer.apply(gradients, self.generator.trainable_weights)

        self.d_loss_tracker.update_state(d_loss)
        self.g_loss_tracker.update_state(g_loss)
        return {"d_loss": self.d_loss_tracker.result(), "g_loss": self.g_loss_tracker.result()}


random = np.random.RandomState(0)
points = random.normal(size=(256, 2)).astype("float32") * 0.2 + np.array([1.0, -1.0], "float32")

with strategy.scope():
    discriminator = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(16), keras.layers.LeakyReLU(negative_slope=0.2), keras.layers.Dense(1)]
    )
    generator = keras.Sequential(
        [keras.Input((LATENT,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)]
    )
    gan = GAN(discriminator, generator)
    gan.compile(
        d_optimizer=keras.optimizers.Adam(3e-3),
        g_optimizer=keras.optimizers.Adam(3e-3),
        loss_fn=keras.losses.BinaryCrossentropy(from_logits=True),
    )

history = gan.fit(tf.data.Dataset.from_tensor_slices(points).batch(32), epochs=3, verbose=2)
