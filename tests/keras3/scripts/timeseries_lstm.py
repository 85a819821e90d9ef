"""Forecast the next value of a time series from windows of the last ones."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(6)

PAST = 12

random = np.random.RandomState(0)
time = np.arange(400)
series = np.stack([np.sin(time / 5.0), np.cos(time / 9.0)], axis=1) + random.normal(0.0, 0.05, (400, 2))
series = series.astype("float32")


def windows(values):
    return keras.utils.timeseries_dataset_from_array(
        values[:-PAST], values[PAST:, :1], sequence_length=PAST, sampling_rate=1, batch_size=32
    )


train_dataset = windows(series[:300])
validation_dataset = windows(series[300:])

with strategy.scope():
    inputs = keras.Input((PAST, 2))
    hidden = keras.layers.LSTM(12)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")

stop = keras.callbacks.EarlyStopping(monitor="val_loss", patience=5)
history = model.fit(train_dataset, epochs=2, validation_data=validation_dataset, callbacks=[stop], verbose=2)
predictions = model.predict(validation_dataset, verbose=0)
