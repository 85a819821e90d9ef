"""A loop of one's own over `train_on_batch` and `test_on_batch`: every worker gives the whole batch."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(39)

random = np.random.RandomState(0)
x = random.normal(size=(160, 5)).astype("float32")
y = (x[:, :1] > 0.0).astype("float32")

with strategy.scope():
    model = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
    )
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])

result_training = []
result_tests = []
for _ in range(2):
    model.reset_metrics()
    for start in range(0, 160, 32):
        batch = slice(start, start + 32)
        logs = model.train_on_batch(x[batch], y[batch], return_dict=True)
        result_training.append([float(logs["loss"]), float(logs["accuracy"])])
    model.reset_metrics()
    for start in range(0, 160, 64):
        loss, accuracy = model.test_on_batch(x[start : start + 64], y[start : start + 64])
        result_tests.append([float(loss), float(accuracy)])
result_weighted = model.train_on_batch(x[:32], y[:32], sample_weight=np.linspace(0.0, 1.0, 32, dtype="float32"))
