"""A Wasserstein GAN of convolutions: a penalty of gradients, several steps of the critic, images after each epoch."""

import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(58)

LATENT = 6


class WGAN(keras.Model):
    def __init__(self, critic, generator, critic_steps=2, penalty_weight=10.0):
        super().__init__()
        self.critic = critic
        self.generator = generator
        self.critic_steps = critic_steps
        self.penalty_weight = penalty_weight

    def compile(self, critic_optimizer, generator_optimizer):
        super().compile()
        self.critic_optimizer = critic_optimizer
        self.generator_optimizer = generator_optimizer

    def penalty(self, real, fake):
        share = tf.random.uniform((tf.shape(real)[0], 1, 1, 1))
        between = real + share * (fake - real)
        with tf.GradientTape() as tape:
            tape.watch(between)
            scores = self.critic(between, training=True)
        gradient = tape.gradient(scores, between)
        norm = tf.sqrt(tf.reduce_sum(gradient**2, axis=(1, 2, 3)) + 1e-12)
        return tf.reduce_mean((norm - 1.0) ** 2)

    def train_step(self, real):
        if isinstance(real, tuple):
            real = real[0]
        count = tf.shape(real)[0]
        for _ in range(self.critic_steps):
            noise = tf.random.normal((count, LATENT))
            with tf.GradientTape() as tape:
                fake = self.generator(noise, training=True)
                difference = tf.reduce_mean(self.critic(fake, training=True)) - tf.reduce_mean(
                    self.critic(real, training=True)
                )
                critic_loss = difference + self.penalty_weight * self.penalty(real, fake)
            gradients = tape.gradient(critic_loss, self.critic.trainable_variables)
            self.critic_optimizer.apply_gradients(zip(gradients, self.critic.trainable_variables, strict=True))

        noise = tf.random.normal((count, LATENT))
        with tf.GradientTape() as tape:
            generator_loss = -tf.reduce_mean(self.critic(self.generator(noise, training=True), training=True))
        gradients = tape.gradient(generator_loss, self.generator.trainable_variables)
        self.generator_optimizer.apply_gradients(zip(gradients, self.generator.trainable_variables, strict=True))
        return {"d_loss": critic_loss, "g_loss": generator_loss}


class Monitor(keras.callbacks.Callback):
    def __init__(self, folder, count):
        super().__init__()
        self.folder = folder
        self.noise = np.random.RandomState(1).normal(size=(count, LATENT)).astype("float32")

    def on_epoch_end(self, epoch, logs=None):
        for number, image in enumerate(self.model.generator(self.noise).numpy()):
            keras.utils.array_to_img(image).save(self.folder / f"image_{number}_{epoch}.png")

    def on_train_end(self, logs=None):
        self.model.generator.save("generator.keras")


random = np.random.RandomState(0)
images = random.uniform(-1.0, -0.8, (96, 8, 8, 1)).astype("float32")
images[:, 2:6, 2:6] += random.uniform(1.0, 1.8, (96, 1, 1, 1)).astype("float32")

with strategy.scope():
    critic = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(8, 3, strides=2, padding="same"),
            keras.layers.LeakyReLU(negative_slope=0.2),
            keras.layers.Flatten(),
            keras.layers.Dense(1),
        ]
    )
    generator = keras.Sequential(
        [
            keras.Input((LATENT,)),
            keras.layers.Dense(4 * 4 * 4, use_bias=False),
            keras.layers.BatchNormalization(),
            keras.layers.LeakyReLU(negative_slope=0.2),
            keras.layers.Reshape((4, 4, 4)),
            keras.layers.UpSampling2D(),
            keras.layers.Conv2D(1, 3, padding="same", activation="tanh"),
        ]
    )
    wgan = WGAN(critic, generator)
    wgan.compile(
        critic_optimizer=keras.optimizers.Adam(2e-3, beta_1=0.5, beta_2=0.9),
        generator_optimizer=keras.optimizers.Adam(2e-3, beta_1=0.5, beta_2=0.9),
    )

folder = Path(tempfile.mkdtemp())
history = wgan.fit(images, batch_size=24, epochs=2, callbacks=[Monitor(folder, 2)], verbose=2)
result_images = sorted(path.name for path in folder.iterdir())
with strategy.scope():
    loaded = keras.models.load_model("generator.keras")
predictions = loaded.predict(np.ones((1, LATENT), "float32"), verbose=0)
