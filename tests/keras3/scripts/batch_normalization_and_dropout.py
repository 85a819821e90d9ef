"""Layers whose outputs in training differ from those in prediction."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(28)

random = np.random.RandomState(0)
y = random.randint(0, 2, (256, 1))
x = (3.0 + 2.0 * random.normal(size=(256, 8)) + y).astype("float32")

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])

history = model.fit(x, y, batch_size=32, epochs=3, validation_data=(x, y), verbose=2)
scores = model.evaluate(x, y, verbose=0)
