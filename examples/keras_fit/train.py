"""An ordinary Keras script: `compile`, `fit`, `evaluate`. It depends only on `TF_CONFIG`."""

import glob
import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # before TensorFlow: fit of Keras 3 does not run on several workers

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()


def read(pattern, batch_size):
    files = [np.load(name) for name in sorted(glob.glob(pattern))]
    images = np.concatenate([file["image"] for file in files]).astype("float32") / 255
    labels = np.concatenate([file["label"] for file in files])
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(20_000, seed=1).batch(batch_size)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return data.with_options(options)


with strategy.scope():
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Flatten(input_shape=(28, 28, 1)),
            tf.keras.layers.Dense(128, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=tf.keras.optimizers.Adam(0.001), loss=loss, metrics=["accuracy"])

model.fit(read("/examples/npz/train-0000[01]-*.npz", batch_size=128), epochs=2, verbose=2)
results = model.evaluate(read("/examples/npz/test-*.npz", batch_size=500), verbose=0, return_dict=True)
print(f"accuracy {results['accuracy']:.4f}", flush=True)
