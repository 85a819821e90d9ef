"""Classify texts with vectors of words from a file, which stay as they are, and a model from strings to classes."""

import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(73)

random = np.random.RandomState(0)
names = [f"word{number}" for number in range(30)]
path = Path(tempfile.mkdtemp()) / "vectors.txt"
path.write_text("\n".join(f"{name} " + " ".join(map(str, random.normal(size=8).round(3))) for name in names[:25]))
numbers = random.randint(0, 30, (160, 12))
texts = np.array([" ".join(names[number] for number in row) for row in numbers])
labels = (numbers < 10).sum(axis=1) // 3

vectorize = keras.layers.TextVectorization(max_tokens=40, output_sequence_length=12)
vectorize.adapt(tf.data.Dataset.from_tensor_slices(texts).batch(40))
vocabulary = vectorize.get_vocabulary()
vectors = np.zeros((len(vocabulary), 8), "float32")
for line in path.read_text().splitlines():
    name, *values = line.split()
    vectors[vocabulary.index(name)] = np.array(values, "float32")

with strategy.scope():
    embedding = keras.layers.Embedding(len(vocabulary), 8, trainable=False)
    embedding.build((1,))
    embedding.set_weights([vectors])
    inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Conv1D(8, 3, activation="relu")(embedding(inputs))
    x = keras.layers.GlobalMaxPooling1D()(x)
    model = keras.Model(inputs, keras.layers.Dense(5, activation="softmax")(x))
    model.compile(optimizer="rmsprop", loss="sparse_categorical_crossentropy", metrics=["acc"])

x = vectorize(texts).numpy()
history = model.fit(x[:128], labels[:128], batch_size=32, epochs=2, validation_data=(x[128:], labels[128:]), verbose=2)

with strategy.scope():
    strings = keras.Input((1,), dtype="string")
    end_to_end_model = keras.Model(strings, model(vectorize(strings)))
result_probabilities = end_to_end_model(tf.constant([["word1 word2 word3 word29"]])).numpy()
