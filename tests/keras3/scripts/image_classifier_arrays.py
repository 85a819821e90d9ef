"""Classify small images that are NumPy arrays in memory; the last fifth of them is for validation."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(2)

random = np.random.RandomState(0)
y_train = random.randint(0, 3, 400)
x_train = random.uniform(0.0, 1.0, (400, 8, 8)).astype("float32")
x_train[np.arange(400), 2 * y_train + 1] += 0.5
y_test, x_test = y_train[:64], x_train[:64] + 0.01

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((8, 8)),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])

# Arrays are shuffled in each epoch, by the random seed above.
history = model.fit(x_train, y_train, batch_size=32, epochs=3, validation_split=0.2, verbose=2)
scores = model.evaluate(x_test, y_test, batch_size=32, verbose=2)
predictions = model.predict(x_test, batch_size=32, verbose=0)
