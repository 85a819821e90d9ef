"""Update the weights once for several batches."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(31)

random = np.random.RandomState(0)
x = random.normal(size=(256, 6)).astype("float32")
y = np.tanh(x[:, :1] + x[:, 1:2])
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)

with strategy.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(0.02, gradient_accumulation_steps=4), loss="mse")

history = model.fit(dataset, epochs=3, verbose=2)
result_iterations = int(model.optimizer.iterations)
