"""Train from a Python generator that never ends, with a number of steps for each epoch."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(20)


def batches(seed, batch_size=32):
    random = np.random.RandomState(seed)
    while True:
        x = random.normal(size=(batch_size, 5)).astype("float32")
        yield x, (x.sum(axis=1, keepdims=True) > 0.0).astype("float32")


with strategy.scope():
    model = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
    )
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])

history = model.fit(batches(0), steps_per_epoch=8, epochs=3, validation_data=next(batches(1)), verbose=2)
scores = model.evaluate(batches(2), steps=3, verbose=0)
