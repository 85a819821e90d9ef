"""An ordinary Keras script: `compile`, `fit`, `evaluate`. It depends only on `TF_CONFIG`."""

import argparse
import glob

import keras
import numpy as np
import tensorflow as tf

options = argparse.ArgumentParser()
options.add_argument("--epochs", type=int, default=1)
epochs = options.parse_args().epochs
strategy = tf.distribute.MultiWorkerMirroredStrategy()


def read(pattern, batch_size):
    files = [np.load(name) for name in sorted(glob.glob(pattern))]
    images = np.concatenate([file["image"] for file in files]).astype("float32") / 255
    labels = np.concatenate([file["label"] for file in files])
    return tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(20_000, seed=1).batch(batch_size)


with strategy.scope():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(0.001), loss=loss, metrics=["accuracy"])

training = read("/examples/npz/train-0000[01]-*.npz", batch_size=128)
test = read("/examples/npz/test-*.npz", batch_size=500)
model.fit(training, validation_data=test, epochs=epochs, verbose=2)
results = model.evaluate(test, verbose=0, return_dict=True)
print(f"accuracy {results['accuracy']:.4f}", flush=True)
