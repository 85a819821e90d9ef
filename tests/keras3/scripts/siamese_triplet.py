"""A siamese network that learns distances from triplets of an anchor, a positive and a negative."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(15)


class SiameseModel(keras.Model):
    def __init__(self, embedding, margin=0.5):
        super().__init__()
        self.embedding = embedding
        self.margin = margin
        self.loss_tracker = keras.metrics.Mean(name="loss")

    def call(self, triplet):
        anchor, positive, negative = (self.embedding(each) for each in triplet)
        positive_distance = keras.ops.sum(keras.ops.square(anchor - positive), -1)
        negative_distance = keras.ops.sum(keras.ops.square(anchor - negative), -1)
        return positive_distance, negative_distance

    def train_step(self, triplet):
        with tf.GradientTape() as tape:
            losses = self.triplet_losses(triplet)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, self.embedding.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.embedding.trainable_weights, strict=True))
        self.loss_tracker.update_state(losses)
        return {"loss": self.loss_tracker.result()}

    def test_step(self, triplet):
        self.loss_tracker.update_state(self.triplet_losses(triplet))
        return {"loss": self.loss_tracker.result()}

    def triplet_losses(self, triplet):
        positive_distance, negative_distance = self(triplet)
        return keras.ops.relu(positive_distance - negative_distance + self.margin)

    @property
    def metrics(self):
        return [self.loss_tracker]


random = np.random.RandomState(0)
anchor = random.normal(size=(250, 8)).astype("float32")
positive = anchor + random.normal(0.0, 0.3, anchor.shape).astype("float32")
negative = np.roll(anchor, 1, axis=0)
dataset = tf.data.Dataset.from_tensor_slices((anchor, positive, negative)).batch(32)

with strategy.scope():
    embedding = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(4)])
    model = SiameseModel(embedding)
    model.compile(optimizer=keras.optimizers.Adam(0.001))

history = model.fit(dataset.take(6), epochs=3, validation_data=dataset.skip(6), verbose=2)
