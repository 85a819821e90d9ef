"""Classify instruments by the spectra of their waves, which the data set computes."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(56)

RATE = 800
CLASSES = 3

random = np.random.RandomState(0)
labels = random.randint(0, CLASSES, 168)
time = np.arange(RATE) / RATE
frequencies = random.uniform(60.0, 100.0, 168)[:, None]
waves = np.sin(2.0 * np.pi * frequencies * time)
waves += (labels[:, None] == 1) * np.sin(4.0 * np.pi * frequencies * time)
waves += (labels[:, None] == 2) * np.sin(6.0 * np.pi * frequencies * time)
noises = random.normal(0.0, 0.2, (4, RATE)).astype("float32")


def add_noise(index, wave, label):
    # A noise for each example by its number, as loud as a part of the wave.
    noise = tf.gather(noises, index % len(noises))
    return wave + 0.5 * noise * tf.reduce_max(wave) / tf.reduce_max(noise), label


def to_spectrogram(waves, labels):
    spectra = tf.signal.stft(waves, frame_length=128, frame_step=64)
    return tf.math.log1p(tf.abs(spectra))[..., tf.newaxis], labels


dataset = tf.data.Dataset.from_tensor_slices((waves.astype("float32"), labels)).enumerate()
dataset = dataset.map(lambda index, example: add_noise(index, *example), num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.batch(24).map(to_spectrogram, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
train_dataset, validation_dataset = dataset.take(5), dataset.skip(5)

with strategy.scope():
    normalization = keras.layers.Normalization(axis=None)
normalization.adapt(train_dataset.map(lambda spectrograms, _: spectrograms))

with strategy.scope():
    inputs = keras.Input(train_dataset.element_spec[0].shape[1:])
    x = keras.layers.Resizing(12, 32)(inputs)
    x = normalization(x)
    x = keras.layers.Conv2D(8, 3, strides=2, activation="relu")(x)
    x = keras.layers.GlobalMaxPooling2D()(x)
    model = keras.Model(inputs, keras.layers.Dense(CLASSES, activation="softmax")(x))
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="sparse_categorical_crossentropy", metrics=["accuracy"])

history = model.fit(train_dataset, epochs=3, validation_data=validation_dataset, verbose=2)
predictions = model.predict(validation_dataset, verbose=0).argmax(axis=-1)
