"""Shuffle in the input pipeline with a seed, repeat, and give the number of steps."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(43)

random = np.random.RandomState(0)
x = random.normal(size=(256, 6)).astype("float32")
y = np.argmax(x[:, :3], axis=1)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(256, seed=7).repeat().batch(32)

with strategy.scope():
    inputs = keras.Input((6,))
    normalize = keras.layers.Normalization()
    normalize.adapt(x)
    outputs = keras.layers.Dense(3)(keras.layers.Dense(12, activation="relu")(normalize(inputs)))
    model = keras.Model(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(k=2, name="top_two")],
    )

history = model.fit(dataset, epochs=3, steps_per_epoch=8, verbose=2)
