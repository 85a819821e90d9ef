"""Sentences of different lengths: padded in each batch, and masked."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(37)

random = np.random.RandomState(0)
sentences = [random.randint(1, 30, random.randint(2, 12)) for _ in range(200)]
labels = np.array([[float(np.mean(sentence < 12) > 0.4)] for sentence in sentences], "float32")


def examples():
    yield from zip(sentences, labels, strict=True)


signature = (tf.TensorSpec((None,), tf.int32), tf.TensorSpec((1,), tf.float32))
dataset = tf.data.Dataset.from_generator(examples, output_signature=signature)
dataset = dataset.padded_batch(32, padded_shapes=([None], [1]))
dataset = dataset.apply(tf.data.experimental.assert_cardinality(7))

with strategy.scope():
    inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(30, 8, mask_zero=True)(inputs)
    x = keras.layers.LSTM(8)(x)
    model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="binary_crossentropy", metrics=["accuracy"])

history = model.fit(dataset, epochs=2, verbose=2)
scores = model.evaluate(dataset, verbose=0)
