"""Find an object and its keypoints: three outputs by name, each with a loss of its own, and overlaps as a metric."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(53)

SIZE = 16


def make_examples(count):
    random = np.random.RandomState(0)
    images = random.uniform(0.0, 0.2, (count, SIZE, SIZE, 1)).astype("float32")
    boxes = np.zeros((count, 4), "float32")
    classes = random.randint(0, 2, count)
    for number in range(count):
        left, top = random.randint(0, SIZE - 7, 2)
        width, height = random.randint(3, 7, 2)
        images[number, top : top + height, left : left + width] += 0.4 + 0.4 * classes[number]
        boxes[number] = left, top, left + width, top + height
    boxes /= SIZE
    corners = np.stack([boxes[:, :2], boxes[:, 2:], (boxes[:, :2] + boxes[:, 2:]) / 2.0], axis=1)
    return images, {"box": boxes, "class": classes, "keypoints": corners[:, None, :, :]}


def overlap(y_true, y_pred):
    """Return the area that two boxes share, divided by the area of both, for each row."""
    low = ops.maximum(y_true[:, :2], y_pred[:, :2])
    high = ops.minimum(y_true[:, 2:], y_pred[:, 2:])
    shared = ops.prod(ops.maximum(high - low, 0.0), axis=-1)
    areas = [ops.prod(ops.maximum(box[:, 2:] - box[:, :2], 0.0), axis=-1) for box in (y_true, y_pred)]
    return shared / (areas[0] + areas[1] - shared + 1e-6)


def overlap_loss(y_true, y_pred):
    return 1.0 - overlap(y_true, y_pred)


with strategy.scope():
    inputs = keras.Input((SIZE, SIZE, 1))
    x = inputs
    for filters in (8, 12):
        x = keras.layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(x)
    x = keras.layers.Dense(32, activation="relu")(keras.layers.Flatten()(x))
    outputs = {
        "box": keras.layers.Dense(4, activation="sigmoid", name="box")(x),
        "class": keras.layers.Dense(2, activation="softmax", name="class")(x),
        "keypoints": keras.layers.Reshape((1, 3, 2), name="keypoints")(keras.layers.Dense(6)(x)),
    }
    model = keras.Model(inputs, outputs)
    model.compile(
        keras.optimizers.AdamW(0.003),
        loss={"box": overlap_loss, "class": "sparse_categorical_crossentropy", "keypoints": keras.losses.Huber()},
        loss_weights={"box": 1.0, "class": 0.5, "keypoints": 2.0},
        metrics={"box": [overlap, "mae"], "class": ["accuracy"]},
    )

images, labels = make_examples(168)
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(24)
history = model.fit(dataset.take(5), epochs=3, validation_data=dataset.skip(5), verbose=2)
predictions = model.predict(images[:3], verbose=0)
