"""Classify small images with a convolutional network, trained on several workers from a `tf.data` pipeline."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(1)

GLOBAL_BATCH_SIZE = 64


def make_images(count, seed):
    """Draw images in which one quarter is brighter; the class is the number of the quarter."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, 4, count)
    images = random.uniform(0.0, 0.5, (count, 8, 8, 1)).astype("float32")
    for image, label in zip(images, labels, strict=True):
        row, column = 4 * (label // 2), 4 * (label % 2)
        image[row : row + 4, column : column + 4] += 0.4
    return images, labels


def make_dataset(count, seed):
    images, labels = make_images(count, seed)
    return tf.data.Dataset.from_tensor_slices((images, labels)).batch(GLOBAL_BATCH_SIZE).prefetch(tf.data.AUTOTUNE)


train_dataset = make_dataset(512, seed=0)
test_dataset = make_dataset(128, seed=1)

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dense(4),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

history = model.fit(train_dataset, epochs=3, validation_data=test_dataset, verbose=2)
scores = model.evaluate(test_dataset, verbose=2)
