"""Continue at the last complete epoch after an error in the middle of training."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(34)


class Interrupted(Exception):
    pass


class Interrupt(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise Interrupted


random = np.random.RandomState(0)
x = random.normal(size=(192, 6)).astype("float32")
y = x.mean(axis=1, keepdims=True)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)


def make_model():
    with strategy.scope():
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
        model.compile(optimizer="adam", loss="mse")
    return model


interrupted_model = make_model()
try:
    interrupted_model.fit(
        dataset, epochs=4, callbacks=[keras.callbacks.BackupAndRestore("backup"), Interrupt()], verbose=2
    )
except Interrupted:
    result_interrupted = True

# Its weights are others until the backup is read.
restored_model = make_model()
history = restored_model.fit(dataset, epochs=4, callbacks=[keras.callbacks.BackupAndRestore("backup")], verbose=2)
result_epochs = history.epoch
