"""Train a new head on a frozen base, then the whole model with a low learning rate."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(5)


def make_dataset(classes, seed):
    random = np.random.RandomState(seed)
    labels = random.randint(0, classes, 256)
    images = random.uniform(0.0, 0.6, (256, 12, 12, 3)).astype("float32")
    for image, label in zip(images, labels, strict=True):
        image[2 * label : 2 * label + 2] += 0.4
    return tf.data.Dataset.from_tensor_slices((images, labels)).batch(32)


def loss():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


with strategy.scope():
    base = keras.Sequential(
        [
            keras.Input((12, 12, 3)),
            keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
        ]
    )
    pretrained = keras.Sequential([base, keras.layers.Dense(6)])
    pretrained.compile(keras.optimizers.Adam(0.01), loss(), metrics=["accuracy"])
pretraining_history = pretrained.fit(make_dataset(6, seed=0), epochs=2, verbose=2)

with strategy.scope():
    base.trainable = False
    inputs = keras.Input((12, 12, 3))
    features = base(keras.layers.Rescaling(2.0, offset=-1.0)(inputs), training=False)
    model = keras.Model(inputs, keras.layers.Dense(3)(features))
    model.compile(keras.optimizers.Adam(0.01), loss(), metrics=["accuracy"])

frozen_weights = base.get_weights()
head_history = model.fit(make_dataset(3, seed=1), epochs=2, verbose=2)
result_base_changed = max(np.abs(a - b).max() for a, b in zip(frozen_weights, base.get_weights(), strict=True))

with strategy.scope():
    base.trainable = True
    model.compile(keras.optimizers.Adam(1e-4), loss(), metrics=["accuracy"])
tuning_history = model.fit(make_dataset(3, seed=1), epochs=1, verbose=2)
