"""Find what is unusual in a time series: an autoencoder has a larger error there than anywhere in its own data."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(63)

LENGTH = 24

random = np.random.RandomState(0)
time = np.arange(320)
usual = (np.sin(time / 4.0) + random.normal(0.0, 0.05, time.size)).astype("float32")
unusual = usual.copy()
unusual[200:215] += 3.0


def windows(values):
    normalized = (values - usual.mean()) / usual.std()
    return np.lib.stride_tricks.sliding_window_view(normalized, LENGTH)[:, :, None]


x = windows(usual)
with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((LENGTH, 1)),
            keras.layers.Conv1D(8, 5, padding="same", strides=2, activation="relu"),
            keras.layers.Conv1D(4, 5, padding="same", strides=2, activation="relu"),
            keras.layers.Conv1DTranspose(4, 5, padding="same", strides=2, activation="relu"),
            keras.layers.Conv1DTranspose(8, 5, padding="same", strides=2, activation="relu"),
            keras.layers.Conv1DTranspose(1, 5, padding="same"),
        ]
    )
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")

history = model.fit(
    x,
    x,
    epochs=3,
    batch_size=32,
    validation_split=0.1,
    callbacks=[keras.callbacks.EarlyStopping(monitor="val_loss", patience=2, mode="min")],
    verbose=2,
)

result_errors = np.mean(np.abs(model.predict(x, verbose=0) - x), axis=(1, 2))
result_threshold = result_errors.max()
tested = windows(unusual)
result_unusual = np.mean(np.abs(model.predict(tested, verbose=0) - tested), axis=(1, 2)) > result_threshold
result_places = [
    place
    for place in range(LENGTH - 1, len(tested) - LENGTH + 1)
    if np.all(result_unusual[place - LENGTH + 1 : place + 1])
]
