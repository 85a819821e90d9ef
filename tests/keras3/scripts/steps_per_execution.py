"""Run several steps in one call, with a last call that has fewer."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(32)

random = np.random.RandomState(0)
x = random.normal(size=(320, 6)).astype("float32")
y = (x.sum(axis=1, keepdims=True) > 0.0).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
batches_ended = []

with strategy.scope():
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
    )
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"], steps_per_execution=4)

log_batch = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: batches_ended.append(batch))
history = model.fit(dataset, epochs=2, validation_data=dataset.take(3), callbacks=[log_batch], verbose=2)
repeated_history = model.fit(dataset.repeat(), steps_per_epoch=8, epochs=2, verbose=2)
scores = model.evaluate(dataset, verbose=0)
predictions = model.predict(dataset, verbose=0)
print("last batches of calls", batches_ended)
