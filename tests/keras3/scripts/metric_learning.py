"""Learn embeddings in which an anchor is nearest to the positive of its class, among those of the batch."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(14)

CLASSES = 8


class EmbeddingModel(keras.Model):
    def train_step(self, data):
        anchors, positives = data[:, 0], data[:, 1]
        with tf.GradientTape() as tape:
            similarities = keras.ops.matmul(
                self(anchors, training=True), keras.ops.transpose(self(positives, training=True))
            )
            # The temperature makes the differences of cosines large enough for the softmax.
            similarities = similarities / 0.2
            labels = keras.ops.arange(tf.shape(data)[0])
            loss = self.compute_loss(y=labels, y_pred=similarities)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(labels, similarities)
        return {metric.name: metric.result() for metric in self.metrics}


random = np.random.RandomState(0)
centers = random.normal(size=(CLASSES, 10))
classes = np.tile(np.arange(CLASSES), 32)
pairs = centers[classes][:, None] + random.normal(0.0, 0.5, (256, 2, 10))
dataset = tf.data.Dataset.from_tensor_slices(pairs.astype("float32")).batch(CLASSES)

with strategy.scope():
    inputs = keras.Input((10,))
    embedded = keras.layers.Dense(6)(keras.layers.Dense(16, activation="relu")(inputs))
    model = EmbeddingModel(inputs, keras.layers.UnitNormalization()(embedded))
    model.compile(
        optimizer=keras.optimizers.Adam(0.003),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    )

history = model.fit(dataset, epochs=2, verbose=2)
