"""Compute in bfloat16, with variables in float32."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(23)
keras.mixed_precision.set_global_policy("mixed_bfloat16")

random = np.random.RandomState(0)
x = random.normal(size=(256, 10)).astype("float32")
y = np.argmax(x[:, :3], axis=1)

with strategy.scope():
    inputs = keras.Input((10,))
    hidden = keras.layers.Dense(32, activation="relu")(inputs)
    outputs = keras.layers.Activation("softmax", dtype="float32")(keras.layers.Dense(3)(hidden))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", metrics=["accuracy"])

dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
history = model.fit(dataset, epochs=3, verbose=2)
scores = model.evaluate(dataset, verbose=0)
result_types = {"compute": hidden.dtype, "variable": model.layers[1].kernel.dtype}
