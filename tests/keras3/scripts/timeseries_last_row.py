"""Forecast weather from windows of an array, whose last batch has one window."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(65)

HOURS, BATCH_SIZE = 12, 32

random = np.random.RandomState(0)
time = np.arange(3 * BATCH_SIZE + 1 + HOURS - 1, dtype="float32")
weather = np.stack([np.sin(time / 8.0), np.cos(time / 24.0), random.normal(size=time.size)], axis=1)
targets = np.roll(weather[:, 0], -HOURS)

dataset = keras.utils.timeseries_dataset_from_array(
    weather.astype("float32"), targets.astype("float32"), sequence_length=HOURS, batch_size=BATCH_SIZE
)
result_sizes = [len(batch) for _, batch in dataset]

with strategy.scope():
    inputs = keras.Input((HOURS, 3))
    x = keras.layers.GRU(8, return_sequences=True)(inputs)
    x = keras.layers.Flatten()(x)
    model = keras.Model(inputs, keras.layers.Dense(1)(x))
    model.compile(optimizer=keras.optimizers.Adam(0.005), loss="mse", metrics=["mae"])

history = model.fit(dataset, epochs=3, validation_data=dataset, verbose=2)
scores = model.evaluate(dataset, verbose=0)
predictions = model.predict(dataset, verbose=0)
