"""Pull images of one class together before a classifier is trained on the frozen features."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(55)

CLASSES = 4


class ContrastiveLoss(keras.losses.Loss):
    """Of each row, the likelihood of the rows of its class among all other rows of the batch."""

    def __init__(self, temperature=0.2):
        super().__init__()
        self.temperature = temperature

    def call(self, labels, features):
        features = ops.normalize(features, axis=-1)
        similarities = ops.matmul(features, ops.transpose(features)) / self.temperature
        labels = ops.reshape(labels, (-1, 1))
        others = 1.0 - ops.eye(ops.shape(labels)[0])
        same = ops.cast(ops.equal(labels, ops.transpose(labels)), "float32") * others
        log_likelihood = similarities - ops.log(ops.sum(ops.exp(similarities) * others, axis=1, keepdims=True) + 1e-9)
        return -ops.sum(same * log_likelihood, axis=1) / ops.maximum(ops.sum(same, axis=1), 1.0)


random = np.random.RandomState(0)
labels = random.randint(0, CLASSES, 160)
images = random.uniform(0.0, 0.6, (160, 8, 8, 1)).astype("float32")
for image, label in zip(images, labels, strict=True):
    image[2 * label : 2 * label + 2] += 0.4

with strategy.scope():
    encoder = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(16, activation="relu"),
        ],
        name="encoder",
    )
    projector = keras.Sequential([encoder, keras.layers.Dense(8)])
    projector.compile(keras.optimizers.Adam(0.003), ContrastiveLoss())
contrastive_history = projector.fit(images, labels, batch_size=40, epochs=2, verbose=2)

with strategy.scope():
    for layer in encoder.layers:
        layer.trainable = False
    classifier = keras.Sequential([encoder, keras.layers.Dropout(0.0), keras.layers.Dense(CLASSES)])
    classifier.compile(
        keras.optimizers.Adam(0.01),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["sparse_categorical_accuracy"],
    )
classifier_history = classifier.fit(images, labels, batch_size=40, epochs=2, verbose=2)
