"""Train from a `PyDataset` that makes its batches in Python."""

import math

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(19)


class Curves(keras.utils.PyDataset):
    def __init__(self, x, y, batch_size, **kwargs):
        super().__init__(**kwargs)
        self.x, self.y, self.batch_size = x, y, batch_size

    def __len__(self):
        return math.ceil(len(self.x) / self.batch_size)

    def __getitem__(self, index):
        low = index * self.batch_size
        high = min(low + self.batch_size, len(self.x))
        return self.x[low:high], self.y[low:high]


random = np.random.RandomState(0)
x = random.uniform(-2.0, 2.0, (250, 2)).astype("float32")
y = np.sin(x[:, :1]) + x[:, 1:]

with strategy.scope():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", metrics=["mae"])

train = Curves(x[:200], y[:200], 32, workers=1)
validation = Curves(x[200:], y[200:], 32)
history = model.fit(train, epochs=3, validation_data=validation, shuffle=False, verbose=2)
scores = model.evaluate(validation, verbose=0)
