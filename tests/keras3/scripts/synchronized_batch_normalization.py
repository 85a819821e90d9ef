"""Normalize with the statistics of the batches of all workers."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(29)

random = np.random.RandomState(0)
x = (1.0 + random.normal(size=(250, 6))).astype("float32")
y = x[:, :1] * x[:, 1:2]

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8),
            keras.layers.BatchNormalization(synchronized=True),
            keras.layers.Activation("relu"),
            keras.layers.Dense(1),
        ]
    )
    model.compile(optimizer=keras.optimizers.SGD(0.02), loss="mse")

dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
history = model.fit(dataset, epochs=2, validation_data=dataset, verbose=2)
