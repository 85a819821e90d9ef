"""Callbacks that write files: checkpoints, a table of the metrics, summaries for TensorBoard."""

import csv
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(22)

random = np.random.RandomState(0)
x = random.normal(size=(192, 6)).astype("float32")
y = x.sum(axis=1, keepdims=True) ** 2
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)

with strategy.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(12, activation="relu"), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", metrics=["mae"])

callbacks = [
    keras.callbacks.ModelCheckpoint("epoch-{epoch:02d}.keras"),
    keras.callbacks.ModelCheckpoint("best.weights.h5", monitor="loss", save_best_only=True, save_weights_only=True),
    keras.callbacks.CSVLogger("log.csv"),
    keras.callbacks.TensorBoard(log_dir="logs", histogram_freq=1, update_freq="epoch"),
]
history = model.fit(dataset, epochs=3, callbacks=callbacks, verbose=2)

with Path("log.csv").open() as log:
    result_log = [[float(row["epoch"]), float(row["loss"]), float(row["mae"])] for row in csv.DictReader(log)]
result_files = sorted(str(path) for path in Path().glob("*.keras"))
result_has_summaries = bool(list(Path("logs/train").glob("events.*")))
scores = keras.models.load_model("epoch-03.keras").evaluate(x, y, verbose=0)
