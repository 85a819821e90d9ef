"""Losses of weights, limits for weights, and limits for gradients."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(27)

random = np.random.RandomState(0)
x = random.normal(size=(250, 6)).astype("float32")
y = 5.0 * x[:, :1] * x[:, 1:2]
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(
                12,
                activation="relu",
                kernel_regularizer=keras.regularizers.L1L2(1e-3, 1e-2),
                kernel_constraint=keras.constraints.MaxNorm(1.0),
            ),
            keras.layers.Dense(6, activation="relu", kernel_regularizer=keras.regularizers.OrthogonalRegularizer(0.01)),
            keras.layers.Dense(1, bias_regularizer="l2", kernel_constraint=keras.constraints.NonNeg()),
        ]
    )
    model.compile(optimizer=keras.optimizers.Adam(0.02, global_clipnorm=1.0), loss="mse")

history = model.fit(dataset, epochs=3, validation_data=dataset.take(2), verbose=2)
scores = model.evaluate(dataset, verbose=0)
result_norms = np.linalg.norm(model.layers[0].get_weights()[0], axis=0)
