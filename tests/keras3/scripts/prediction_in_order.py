"""Predict from arrays and data sets: row by row in the order of the inputs."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(36)

x = np.arange(101, dtype="float32")[:, None] / 10.0
y = 2.0 * x + 1.0

with strategy.scope():
    inputs = keras.Input((1,))
    line = keras.layers.Dense(1, name="line")(inputs)
    model = keras.Model(inputs, {"line": line, "copy": keras.layers.Identity()(inputs)})
    model.compile(optimizer=keras.optimizers.SGD(0.001), loss={"line": "mse"})

history = model.fit(x, {"line": y}, batch_size=16, epochs=2, shuffle=False, verbose=2)

result_array = model.predict(x, batch_size=16, verbose=0)
result_dataset = model.predict(tf.data.Dataset.from_tensor_slices(x).batch(16), verbose=0)
result_two_rows = model.predict(x[:2], verbose=0)
result_one_row = model.predict(x[:1], verbose=0)
result_steps = model.predict(tf.data.Dataset.from_tensor_slices(x).batch(16).repeat(), steps=3, verbose=0)
result_batch = model.predict_on_batch(x[:7])
result_is_in_order = bool((result_array["copy"] == x).all() and (result_dataset["copy"] == x).all())
