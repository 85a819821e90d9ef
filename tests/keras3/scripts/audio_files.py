"""Recognize speakers by recordings in folders, each of which has the name of its speaker."""

import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(68)

RATE = 400

random = np.random.RandomState(0)
folder = Path(tempfile.mkdtemp())
for speaker, pitch in {"ada": 20.0, "grace": 45.0, "mary": 80.0}.items():
    (folder / speaker).mkdir()
    for number in range(20):
        time = np.arange(RATE) / RATE
        wave = 0.5 * np.sin(2.0 * np.pi * pitch * random.uniform(0.9, 1.1) * time) + random.normal(0.0, 0.1, RATE)
        wave = np.clip(wave, -1.0, 1.0).astype("float32")
        encoded = tf.audio.encode_wav(wave[:, None], sample_rate=RATE)
        tf.io.write_file(str(folder / speaker / f"{number}.wav"), encoded)

train_dataset, validation_dataset = keras.utils.audio_dataset_from_directory(
    folder, batch_size=12, validation_split=0.2, seed=0, output_sequence_length=RATE, subset="both", verbose=False
)


def to_frequencies(waves, labels):
    spectra = tf.signal.fft(tf.cast(tf.squeeze(waves, axis=-1), tf.complex64))
    return tf.abs(spectra[:, : RATE // 2, None]), labels


train_dataset = train_dataset.map(to_frequencies).cache()
validation_dataset = validation_dataset.map(to_frequencies).cache()

with strategy.scope():
    inputs = keras.Input((RATE // 2, 1))
    x = keras.layers.Conv1D(8, 3, padding="same")(inputs)
    shortcut = keras.layers.Conv1D(8, 1, padding="same")(inputs)
    x = keras.layers.Activation("relu")(keras.layers.Add()([x, shortcut]))
    x = keras.layers.AveragePooling1D(pool_size=8, strides=8)(x)
    x = keras.layers.Dense(16, activation="relu")(keras.layers.Flatten()(x))
    model = keras.Model(inputs, keras.layers.Dense(3, activation="softmax")(x))
    model.compile(optimizer=keras.optimizers.Adam(0.003), loss="sparse_categorical_crossentropy", metrics=["accuracy"])

history = model.fit(train_dataset, epochs=2, validation_data=validation_dataset, verbose=2)
scores = model.evaluate(validation_dataset, verbose=0)
