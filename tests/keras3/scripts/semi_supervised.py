"""Learn from few images with labels and many without: zipped batches of other sizes, and a queue of neighbors."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(56)

WIDTH = 8
QUEUE_SIZE = 64

random = np.random.RandomState(0)
centers = random.normal(size=(3, 12))
classes = random.randint(0, 3, 192)
points = (centers[classes] + random.normal(0.0, 0.4, (192, 12))).astype("float32")

labeled = tf.data.Dataset.from_tensor_slices((points[:48], classes[:48])).batch(8)
unlabeled = tf.data.Dataset.from_tensor_slices(points[48:]).batch(24)
train_dataset = tf.data.Dataset.zip((unlabeled, labeled)).prefetch(tf.data.AUTOTUNE)
test_dataset = tf.data.Dataset.from_tensor_slices((points, classes)).batch(32)


class NearestNeighbors(keras.Model):
    def __init__(self):
        super().__init__()
        self.augmenter = keras.layers.GaussianNoise(0.2, seed=3)
        self.encoder = keras.Sequential(
            [keras.Input((12,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(WIDTH)]
        )
        self.head = keras.layers.Dense(3)
        self.head.build((None, WIDTH))
        self.queue = self.add_weight(shape=(QUEUE_SIZE, WIDTH), initializer="random_normal", trainable=False)
        self.contrastive_loss = keras.metrics.Mean(name="c_loss")
        self.head_loss = keras.metrics.Mean(name="h_loss")
        self.head_accuracy = keras.metrics.SparseCategoricalAccuracy(name="h_accuracy")

    @property
    def metrics(self):
        return [self.contrastive_loss, self.head_loss, self.head_accuracy]

    def compile(self, contrastive_optimizer, head_optimizer):
        super().compile()
        self.contrastive_optimizer = contrastive_optimizer
        self.head_optimizer = head_optimizer
        self.head_loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def neighbors(self, features):
        similarities = ops.matmul(features, ops.transpose(self.queue))
        return features + ops.stop_gradient(ops.take(self.queue, ops.argmax(similarities, axis=1), axis=0) - features)

    def train_step(self, data):
        unlabeled, (rows, labels) = data
        both = ops.concatenate([unlabeled, rows], axis=0)
        with tf.GradientTape() as tape:
            one, two = (ops.normalize(self.encoder(self.augmenter(both, training=True)), axis=-1) for _ in range(2))
            similarities = ops.matmul(self.neighbors(one), ops.transpose(two)) / 0.2
            targets = ops.arange(ops.shape(both)[0])
            loss = ops.mean(keras.losses.sparse_categorical_crossentropy(targets, similarities, from_logits=True))
        gradients = tape.gradient(loss, self.encoder.trainable_weights)
        self.contrastive_optimizer.apply(gradients, self.encoder.trainable_weights)
        self.queue.assign(ops.concatenate([one, self.queue[: -ops.shape(one)[0]]], axis=0))
        self.contrastive_loss.update_state(loss)

        with tf.GradientTape() as tape:
            scores = self.head(self.encoder(rows, training=False))
            loss = self.head_loss_function(labels, scores)
        gradients = tape.gradient(loss, self.head.trainable_weights)
        self.head_optimizer.apply(gradients, self.head.trainable_weights)
        self.head_loss.update_state(loss)
        self.head_accuracy.update_state(labels, scores)
        return {metric.name: metric.result() for metric in self.metrics}

    def test_step(self, data):
        rows, labels = data
        scores = self.head(self.encoder(rows, training=False))
        self.head_loss.update_state(self.head_loss_function(labels, scores))
        self.head_accuracy.update_state(labels, scores)
        return {metric.name: metric.result() for metric in self.metrics[1:]}


with strategy.scope():
    model = NearestNeighbors()
    model.compile(keras.optimizers.Adam(0.003), keras.optimizers.Adam(0.01))

history = model.fit(train_dataset, epochs=2, validation_data=test_dataset, verbose=2)
