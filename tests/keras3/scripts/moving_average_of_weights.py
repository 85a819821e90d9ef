"""Average the weights over the steps, and evaluate with the average."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(25)

random = np.random.RandomState(0)
x = random.normal(size=(192, 6)).astype("float32")
y = x[:, :1] - x[:, 1:2]
train_dataset = tf.data.Dataset.from_tensor_slices((x[:128], y[:128])).batch(32)
validation_dataset = tf.data.Dataset.from_tensor_slices((x[128:], y[128:])).batch(32)


def make_model(optimizer):
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
    model.compile(optimizer=optimizer, loss="mse")
    return model


with strategy.scope():
    model = make_model(keras.optimizers.Adam(0.02, use_ema=True, ema_momentum=0.9))
history = model.fit(train_dataset, epochs=3, validation_data=validation_dataset, verbose=2)
scores = model.evaluate(validation_dataset, verbose=0)

with strategy.scope():
    overwriting_model = make_model(
        keras.optimizers.SGD(0.02, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=3)
    )
overwriting_history = overwriting_model.fit(train_dataset, epochs=2, verbose=2)

with strategy.scope():
    swapping_model = make_model(keras.optimizers.Adam(0.02, use_ema=True, ema_momentum=0.9))
swapping_history = swapping_model.fit(
    train_dataset,
    epochs=2,
    validation_data=validation_dataset,
    callbacks=[keras.callbacks.SwapEMAWeights(swap_on_epoch=True)],
    verbose=2,
)
