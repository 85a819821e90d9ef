"""Give each word of a sentence a tag: the loss counts words, not sentences, and leaves out the padding."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(38)

LENGTH = 10

random = np.random.RandomState(0)
words = random.randint(1, 30, (192, LENGTH))
lengths = random.randint(2, LENGTH + 1, 192)
words[np.arange(LENGTH)[None] >= lengths[:, None]] = 0
tags = words % 3

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32"),
            keras.layers.Embedding(30, 8, mask_zero=True),
            keras.layers.GRU(8, return_sequences=True),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="sparse_categorical_crossentropy", metrics=["accuracy"])

dataset = tf.data.Dataset.from_tensor_slices((words, tags)).batch(32)
history = model.fit(dataset, epochs=2, verbose=2)
scores = model.evaluate(dataset, verbose=0)
