"""Segment images with a small U-Net."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(16)


def make_unet():
    inputs = keras.Input((16, 16, 1))
    first = keras.layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
    down = keras.layers.MaxPooling2D()(first)
    middle = keras.layers.SeparableConv2D(8, 3, padding="same", activation="relu")(down)
    up = keras.layers.Conv2DTranspose(4, 3, strides=2, padding="same", activation="relu")(middle)
    joined = keras.layers.Concatenate()([first, up])
    return keras.Model(inputs, keras.layers.Conv2D(2, 3, padding="same")(joined))


random = np.random.RandomState(0)
masks = np.zeros((96, 16, 16, 1), "uint8")
for mask in masks:
    row, column = random.randint(0, 10, 2)
    mask[row : row + 6, column : column + 6] = 1
images = (masks + random.normal(0.0, 0.3, masks.shape)).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((images, masks)).batch(16)

with strategy.scope():
    model = make_unet()
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

history = model.fit(dataset.take(5), epochs=3, validation_data=dataset.skip(5), verbose=2)
predictions = keras.ops.convert_to_numpy(keras.ops.argmax(model.predict(dataset.skip(5), verbose=0), axis=-1))
