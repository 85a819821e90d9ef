"""Layers that change images at random, in the model and in the input pipeline."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(30)

random = np.random.RandomState(0)
labels = random.randint(0, 2, 128)
images = random.uniform(0.0, 0.5, (128, 8, 8, 3)).astype("float32")
images[labels == 1, 3:5] += 0.5

with strategy.scope():
    augment = keras.Sequential([keras.layers.RandomFlip("horizontal"), keras.layers.RandomTranslation(0.1, 0.1)])
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            augment,
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.GlobalMaxPooling2D(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])

brightness = keras.layers.RandomBrightness(0.1, value_range=(0.0, 1.0))
dataset = tf.data.Dataset.from_tensor_slices((images, labels.astype("float32")[:, None])).batch(32)
augmented = dataset.map(lambda image, label: (brightness(image, training=True), label))
history = model.fit(augmented, epochs=2, validation_data=dataset, verbose=2)
