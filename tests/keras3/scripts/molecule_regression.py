"""Predict a number of molecules of different sizes by messages between atoms: each row is a padded graph."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(59)

ATOMS = 9
KINDS = 4

random = np.random.RandomState(0)


def make_molecule():
    size = random.randint(3, ATOMS + 1)
    bonds = np.zeros((ATOMS, ATOMS), "float32")
    for atom in range(1, size):
        other = random.randint(atom)
        bonds[atom, other] = bonds[other, atom] = 1.0
    atoms = np.zeros(ATOMS, "int32")
    atoms[:size] = random.randint(1, KINDS, size)
    return atoms, bonds, bonds.sum(axis=1) @ (atoms == 2)


class MessagePassing(keras.layers.Layer):
    def __init__(self, units, steps):
        super().__init__()
        self.messages = keras.layers.Dense(units)
        self.update = keras.layers.GRUCell(units)
        self.steps = steps

    def call(self, inputs):
        states, bonds = inputs
        width = states.shape[-1]
        for _ in range(self.steps):
            received = keras.ops.matmul(bonds, self.messages(states))
            flat = keras.ops.reshape(states, (-1, width))
            updated, _ = self.update(keras.ops.reshape(received, (-1, width)), [flat])
            states = keras.ops.reshape(updated, keras.ops.shape(states))
        return states


class SumOfAtoms(keras.layers.Layer):
    def call(self, states, atoms):
        return keras.ops.sum(states * keras.ops.cast(atoms > 0, states.dtype)[..., None], axis=1)


atoms, bonds, target = map(np.array, zip(*(make_molecule() for _ in range(160)), strict=True))
dataset = tf.data.Dataset.from_tensor_slices(({"atoms": atoms, "bonds": bonds}, target[:, None])).batch(24)

with strategy.scope():
    atoms_input = keras.Input((ATOMS,), dtype="int32", name="atoms")
    bonds_input = keras.Input((ATOMS, ATOMS), name="bonds")
    states = keras.layers.Embedding(KINDS, 8)(atoms_input)
    states = MessagePassing(8, steps=2)([states, bonds_input])
    pooled = SumOfAtoms()(states, atoms_input)
    model = keras.Model({"atoms": atoms_input, "bonds": bonds_input}, keras.layers.Dense(1)(pooled))
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", metrics=["mae", "r2_score"])

history = model.fit(dataset, epochs=3, verbose=2)
predictions = model.predict(dataset, verbose=0)
