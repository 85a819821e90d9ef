"""Classify molecules: ragged rows of atoms and bonds, which the model joins to one graph."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(67)

KINDS = 4

random = np.random.RandomState(0)
sizes = random.randint(2, 9, 130)
atoms = [random.randint(0, KINDS, size) for size in sizes]
bonds = [[[random.randint(atom), atom] for atom in range(1, size)] for size in sizes]
labels = np.array([[float(np.sum(kinds == 2) > 1)] for kinds in atoms], "float32")


class Molecules(keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.kinds = keras.layers.Embedding(KINDS, units)
        self.messages = keras.layers.Dense(units, activation="relu")

    def call(self, atoms, bonds):
        states = self.kinds(atoms.flat_values)
        first_atoms = tf.gather(atoms.row_starts(), bonds.value_rowids())
        pairs = bonds.flat_values + first_atoms[:, None]
        for source, target in ((0, 1), (1, 0)):
            sent = tf.gather(states, pairs[:, source])
            received = tf.math.unsorted_segment_sum(sent, pairs[:, target], tf.shape(states)[0])
            states = states + self.messages(received)
        return tf.math.segment_sum(states, atoms.value_rowids())


inputs = {
    "atoms": tf.ragged.constant(atoms, dtype=tf.int64),
    "bonds": tf.ragged.constant(bonds, dtype=tf.int64, ragged_rank=1, inner_shape=(2,)),
}
dataset = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(16)


class Classifier(keras.Model):
    def __init__(self):
        super().__init__()
        self.molecules = Molecules(8)
        self.classify = keras.layers.Dense(1, activation="sigmoid")

    def call(self, inputs):
        return self.classify(self.molecules(inputs["atoms"], inputs["bonds"]))


with strategy.scope():
    model = Classifier()
    model(next(iter(dataset))[0])
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="binary_crossentropy", metrics=["auc"])

history = model.fit(dataset, epochs=3, class_weight={0: 1.0, 1: 2.0}, verbose=2)
predictions = model.predict(dataset, verbose=0)
