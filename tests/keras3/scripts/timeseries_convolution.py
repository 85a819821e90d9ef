"""Classify time series with one-dimensional convolutions."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(7)

random = np.random.RandomState(0)
labels = random.randint(0, 2, 256)
phases = random.uniform(0.0, 6.0, (256, 1))
x = np.sin(np.arange(40)[None] * np.where(labels == 0, 0.3, 0.6)[:, None] + phases)
x = (x + random.normal(0.0, 0.1, x.shape)).astype("float32")[..., None]

with strategy.scope():
    inputs = keras.Input((40, 1))
    hidden = keras.layers.Conv1D(8, 5, padding="same", activation="relu")(inputs)
    hidden = keras.layers.Conv1D(8, 5, padding="same", activation="relu")(hidden)
    hidden = keras.layers.GlobalAveragePooling1D()(hidden)
    model = keras.Model(inputs, keras.layers.Dense(2, activation="softmax")(hidden))
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["sparse_categorical_accuracy"])

history = model.fit(x[:192], labels[:192], batch_size=32, epochs=3, shuffle=False, verbose=2)
scores = model.evaluate(x[192:], labels[192:], verbose=0)
