"""Remove noise from images with a convolutional autoencoder."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(9)

random = np.random.RandomState(0)
clean = np.zeros((256, 8, 8, 1), "float32")
clean[np.arange(256), random.randint(0, 8, 256)] = 1.0
noisy = np.clip(clean + random.normal(0.0, 0.3, clean.shape), 0.0, 1.0).astype("float32")

with strategy.scope():
    inputs = keras.Input((8, 8, 1))
    x = keras.layers.Conv2D(8, 3, activation="relu", padding="same")(inputs)
    x = keras.layers.MaxPooling2D(2, padding="same")(x)
    x = keras.layers.Conv2DTranspose(8, 3, strides=2, activation="relu", padding="same")(x)
    outputs = keras.layers.Conv2D(1, 3, activation="sigmoid", padding="same")(x)
    autoencoder = keras.Model(inputs, outputs)
    autoencoder.compile(optimizer="adam", loss="binary_crossentropy")

history = autoencoder.fit(
    x=noisy[:200],
    y=clean[:200],
    epochs=3,
    batch_size=40,
    shuffle=True,
    validation_data=(noisy[200:], clean[200:]),
    verbose=2,
)
predictions = autoencoder.predict(noisy[200:], verbose=0)
