"""Classify sentences with a small transformer, from strings to classes."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(8)

LENGTH = 10
VOCABULARY_SIZE = 60


class TransformerBlock(keras.layers.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = keras.layers.MultiHeadAttention(num_heads=heads, key_dim=width // heads)
        self.feed_forward = keras.Sequential(
            [keras.layers.Dense(2 * width, activation="relu"), keras.layers.Dense(width)]
        )
        self.first_norm = keras.layers.LayerNormalization(epsilon=1e-6)
        self.second_norm = keras.layers.LayerNormalization(epsilon=1e-6)

    def call(self, inputs):
        attended = self.first_norm(inputs + self.attention(inputs, inputs))
        return self.second_norm(attended + self.feed_forward(attended))


class TokenAndPositionEmbedding(keras.layers.Layer):
    def __init__(self, length, vocabulary_size, width):
        super().__init__()
        self.tokens = keras.layers.Embedding(vocabulary_size, width)
        self.positions = keras.layers.Embedding(length, width)

    def call(self, x):
        return self.tokens(x) + self.positions(keras.ops.arange(x.shape[-1]))


random = np.random.RandomState(0)
vocabulary = np.array([f"word{number}" for number in range(40)])
numbers = random.randint(0, 40, (256, LENGTH))
sentences = np.array([" ".join(row) for row in vocabulary[numbers]])
labels = (numbers < 12).sum(axis=1) > 2

with strategy.scope():
    vectorize = keras.layers.TextVectorization(max_tokens=VOCABULARY_SIZE, output_sequence_length=LENGTH)
vectorize.adapt(tf.data.Dataset.from_tensor_slices(sentences).batch(64))

dataset = tf.data.Dataset.from_tensor_slices((sentences, labels.astype("float32")[:, None])).batch(32)
dataset = dataset.map(lambda text, label: (vectorize(text), label))

with strategy.scope():
    inputs = keras.Input((LENGTH,), dtype="int64")
    x = TokenAndPositionEmbedding(LENGTH, VOCABULARY_SIZE, 16)(inputs)
    x = TransformerBlock(16, heads=2)(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])

history = model.fit(dataset, epochs=2, verbose=2)
scores = model.evaluate(dataset, verbose=0)
