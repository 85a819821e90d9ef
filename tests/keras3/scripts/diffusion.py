"""A denoising diffusion model: images from noise, by a network whose weights are averaged after each step."""

import math

import keras
import numpy as np
import tensorflow as tf
from keras import ops

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(59)

SIZE = 8
EMA = 0.9


@keras.saving.register_keras_serializable()
def embed(x):
    angles = 2.0 * math.pi * ops.exp(ops.linspace(0.0, 4.0, 4)) * x
    return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=3)


def make_network():
    images = keras.Input((SIZE, SIZE, 1))
    variances = keras.Input((1, 1, 1))

    time = keras.layers.UpSampling2D(SIZE, interpolation="nearest")(keras.layers.Lambda(embed)(variances))
    x = keras.layers.Concatenate()([keras.layers.Conv2D(8, 1)(images), time])
    skip = x = keras.layers.Conv2D(8, 3, padding="same", activation="swish")(x)
    x = keras.layers.Conv2D(12, 3, padding="same", activation="swish")(keras.layers.AveragePooling2D(2)(x))
    x = keras.layers.Concatenate()([keras.layers.UpSampling2D(interpolation="bilinear")(x), skip])
    return keras.Model([images, variances], keras.layers.Conv2D(1, 1, kernel_initializer="zeros")(x))


class Diffusion(keras.Model):
    def __init__(self):
        super().__init__()
        self.normalizer = keras.layers.Normalization()
        self.network = make_network()
        self.ema_network = keras.models.clone_model(self.network)
        self.seed_generator = keras.random.SeedGenerator(2)

    def compile(self, **options):
        super().compile(**options)
        self.noise_loss = keras.metrics.Mean(name="n_loss")
        self.image_loss = keras.metrics.Mean(name="i_loss")

    @property
    def metrics(self):
        return [self.noise_loss, self.image_loss]

    def rates(self, times):
        start, end = math.acos(0.95), math.acos(0.02)
        angles = start + times * (end - start)
        return ops.sin(angles), ops.cos(angles)

    def denoise(self, noisy, noise_rates, signal_rates, *, training):
        network = self.network if training else self.ema_network
        noises = network([noisy, noise_rates**2], training=training)
        return noises, (noisy - noise_rates * noises) / signal_rates

    def mix(self, images):
        images = self.normalizer(images, training=False)
        count = ops.shape(images)[0]
        noises = keras.random.normal((count, SIZE, SIZE, 1), seed=self.seed_generator)
        times = keras.random.uniform((count, 1, 1, 1), seed=self.seed_generator)
        noise_rates, signal_rates = self.rates(times)
        return images, noises, signal_rates * images + noise_rates * noises, noise_rates, signal_rates

    def train_step(self, images):
        images, noises, noisy, noise_rates, signal_rates = self.mix(images)
        with tf.GradientTape() as tape:
            predicted, predicted_images = self.denoise(noisy, noise_rates, signal_rates, training=True)
            noise_loss = self.loss(noises, predicted)
        gradients = tape.gradient(noise_loss, self.network.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.network.trainable_weights, strict=True))
        self.noise_loss.update_state(noise_loss)
        self.image_loss.update_state(self.loss(images, predicted_images))
        for weight, average in zip(self.network.weights, self.ema_network.weights, strict=True):
            average.assign(EMA * average + (1.0 - EMA) * weight)
        return {metric.name: metric.result() for metric in self.metrics}

    def test_step(self, images):
        images, noises, noisy, noise_rates, signal_rates = self.mix(images)
        predicted, predicted_images = self.denoise(noisy, noise_rates, signal_rates, training=False)
        self.noise_loss.update_state(self.loss(noises, predicted))
        self.image_loss.update_state(self.loss(images, predicted_images))
        return {metric.name: metric.result() for metric in self.metrics}

    def generate(self, noisy, steps):
        for step in range(steps):
            times = ops.full((noisy.shape[0], 1, 1, 1), 1.0 - step / steps)
            noises, images = self.denoise(noisy, *self.rates(times), training=False)
            noise_rates, signal_rates = self.rates(times - 1.0 / steps)
            noisy = signal_rates * images + noise_rates * noises
        images = self.normalizer.mean + images * self.normalizer.variance**0.5
        return ops.clip(images, 0.0, 1.0)


random = np.random.RandomState(0)
images = random.uniform(0.0, 0.2, (160, SIZE, SIZE, 1)).astype("float32")
images[:, :, 3:5] += random.uniform(0.3, 0.8, (160, 1, 1, 1)).astype("float32")
train_dataset = tf.data.Dataset.from_tensor_slices(images[:128]).batch(32, drop_remainder=True)
validation_dataset = tf.data.Dataset.from_tensor_slices(images[128:]).batch(32)

with strategy.scope():
    model = Diffusion()
    model.normalizer.adapt(train_dataset)
    model.compile(optimizer=keras.optimizers.AdamW(0.002, weight_decay=1e-4), loss=keras.losses.mean_absolute_error)

checkpoint = keras.callbacks.ModelCheckpoint(
    "best.weights.h5", monitor="val_i_loss", mode="min", save_best_only=True, save_weights_only=True
)
history = model.fit(train_dataset, epochs=2, validation_data=validation_dataset, callbacks=[checkpoint], verbose=2)
model.load_weights("best.weights.h5")
result_generated = np.asarray(model.generate(tf.constant(random.normal(size=(2, SIZE, SIZE, 1)), tf.float32), steps=3))
