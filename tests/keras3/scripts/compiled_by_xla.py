"""Compile the step with XLA."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(33)

random = np.random.RandomState(0)
x = random.normal(size=(256, 12)).astype("float32")
y = np.argmax(x[:, :4], axis=1)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)

with strategy.scope():
    model = keras.Sequential(
        [keras.Input((12,)), keras.layers.Dense(16, activation="gelu"), keras.layers.Dense(4, activation="softmax")]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=True)

history = model.fit(dataset, epochs=3, verbose=2)
scores = model.evaluate(dataset, verbose=0)
predictions = model.predict(x, batch_size=32, verbose=0)
