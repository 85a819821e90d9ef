"""Rows of a CSV file into a wide and a deep model: layers that look up words are adapted before the strategy."""

import csv
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(60)

NUMBERS = ["age", "hours"]
CATEGORIES = {"job": ["nurse", "smith", "baker", "clerk"], "town": ["north", "south", "east"]}

random = np.random.RandomState(0)
table = {name: random.normal(40.0, 10.0, 200).round(2) for name in NUMBERS}
table |= {name: random.choice(kinds, 200) for name, kinds in CATEGORIES.items()}
table["income"] = ((table["age"] > 40.0) ^ (table["job"] == "nurse")).astype(int)

path = Path(tempfile.mkdtemp()) / "people.csv"
with path.open("w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(table)
    rows.writerows(zip(*table.values(), strict=True))

dataset = tf.data.experimental.make_csv_dataset(
    str(path), batch_size=32, label_name="income", num_epochs=1, shuffle=False
)

lookups = {name: keras.layers.StringLookup(vocabulary=kinds) for name, kinds in CATEGORIES.items()}
normalizations = {name: keras.layers.Normalization(axis=None) for name in NUMBERS}
for name, normalization in normalizations.items():
    normalization.adapt(table[name])


def encode(features, label):
    encoded = {name: normalizations[name](features[name][:, None]) for name in NUMBERS}
    encoded |= {name: lookups[name](features[name][:, None]) for name in CATEGORIES}
    return encoded, label[:, None]


# TensorFlow does not count the rows of a file; without a length, Keras counts a step too many at its end.
train_dataset = dataset.map(encode).apply(tf.data.experimental.assert_cardinality(7))

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    inputs = {name: keras.Input((1,), name=name) for name in NUMBERS}
    inputs |= {name: keras.Input((1,), name=name, dtype="int64") for name in CATEGORIES}
    one_hot = [
        keras.layers.CategoryEncoding(len(kinds) + 1, output_mode="one_hot")(inputs[name])
        for name, kinds in CATEGORIES.items()
    ]
    embedded = [
        keras.layers.Flatten()(keras.layers.Embedding(len(kinds) + 1, 4)(inputs[name]))
        for name, kinds in CATEGORIES.items()
    ]
    numbers = [inputs[name] for name in NUMBERS]
    wide = keras.layers.Concatenate()([*one_hot, *numbers])
    deep = keras.layers.Concatenate()([*embedded, *numbers])
    deep = keras.layers.Dense(16, activation="relu")(deep)
    joined = keras.layers.Concatenate()([wide, deep])
    model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(joined))
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="binary_crossentropy", metrics=["accuracy", "auc"])

history = model.fit(train_dataset, epochs=3, verbose=2)
scores = model.evaluate(train_dataset, verbose=0)
