"""Classify images of a folder: the data and its statistics are there before the strategy, and nothing divides them."""

import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(51)

CLASSES = ("circle", "cross", "stripe")


def draw(name, random):
    image = random.uniform(0.0, 60.0, (16, 16, 3))
    rows, columns = np.mgrid[:16, :16]
    shapes = {
        "circle": (rows - 8) ** 2 + (columns - 8) ** 2 < 25,
        "cross": (abs(rows - 8) < 2) | (abs(columns - 8) < 2),
        "stripe": rows % 4 < 2,
    }
    image[shapes[name]] += 150.0
    return image


folder = Path(tempfile.mkdtemp())
random = np.random.RandomState(0)
for name in CLASSES:
    (folder / name).mkdir()
    for number in range(27):
        keras.utils.array_to_img(draw(name, random), scale=False).save(folder / name / f"{number}.png")

# 65 images for training and 16 for validation: the last batch of training has one image.
train_dataset, validation_dataset = keras.utils.image_dataset_from_directory(
    folder, validation_split=0.2, subset="both", seed=7, image_size=(16, 16), batch_size=16
)
all_dataset = keras.utils.image_dataset_from_directory(folder, image_size=(16, 16), batch_size=16)
normalize = keras.layers.Normalization()
normalize.adapt(all_dataset.map(lambda image, label: image))
result_statistics = [normalize.mean, normalize.variance]

strategy = tf.distribute.MultiWorkerMirroredStrategy()

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            normalize,
            keras.layers.SeparableConv2D(8, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(len(CLASSES)),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])

history = model.fit(train_dataset, epochs=2, validation_data=validation_dataset, verbose=2)
# Shuffled without a seed of its own, in an order that is new in each epoch.
all_history = model.fit(all_dataset.cache().prefetch(tf.data.AUTOTUNE), epochs=2, verbose=2)
image = keras.utils.img_to_array(keras.utils.load_img(folder / "cross" / "3.png"))
predictions = model.predict(image[None], verbose=0)
