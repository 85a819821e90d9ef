"""Run without a graph, as one does to find an error."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(44)

random = np.random.RandomState(0)
x = random.normal(size=(72, 4)).astype("float32")
y = x[:, :1] - x[:, 1:2]

with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, activation="relu"), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse", metrics=["mae"], run_eagerly=True)

history = model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=2)
scores = model.evaluate(x, y, batch_size=16, verbose=0)
