"""Classify the nodes of one graph: the graph belongs to the model, and a batch has the numbers of nodes."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(66)

NODES, FEATURES, CLASSES = 120, 8, 3

random = np.random.RandomState(0)
classes = random.randint(0, CLASSES, NODES)
features = random.normal(size=(NODES, FEATURES)).astype("float32")
features[np.arange(NODES), classes] += 1.0
pairs = random.randint(0, NODES, (2, 1200))
# Nodes of one class are often neighbours.
edges = pairs[:, (classes[pairs[0]] == classes[pairs[1]]) | (random.uniform(size=1200) < 0.1)]


class GraphConvolution(keras.layers.Layer):
    def __init__(self, units, edges):
        super().__init__()
        self.edges = edges
        self.transform = keras.layers.Dense(units, activation="gelu")
        self.combine = keras.layers.Dense(units, activation="gelu")

    def call(self, states):
        sources, targets = self.edges
        messages = self.transform(keras.ops.take(states, sources, axis=0))
        received = keras.ops.segment_sum(messages, targets, num_segments=NODES)
        return self.combine(keras.ops.concatenate([states, received], axis=1))


class NodeClassifier(keras.Model):
    def __init__(self, features, edges):
        super().__init__()
        self.features = features
        self.first, self.second = GraphConvolution(8, edges), GraphConvolution(8, edges)
        self.classify = keras.layers.Dense(CLASSES)

    def call(self, nodes):
        states = self.second(self.first(keras.ops.convert_to_tensor(self.features)))
        return self.classify(keras.ops.take(states, nodes, axis=0))


order = random.permutation(NODES)
train, test = order[:70], order[70:]

with strategy.scope():
    model = NodeClassifier(features, edges)
    model(np.arange(2))
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

history = model.fit(x=train, y=classes[train], batch_size=16, epochs=3, verbose=2)
scores = model.evaluate(x=test, y=classes[test], verbose=0)
