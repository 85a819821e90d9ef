"""Train a small causal transformer on letters; a callback lets it write after each epoch."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(54)

LENGTH = 12
WIDTH = 16

text = "the quick brown fox jumps over the lazy dog and the dog sleeps on. " * 6
letters = sorted(set(text))
numbers = np.array([letters.index(letter) for letter in text], "int32")
windows = np.lib.stride_tricks.sliding_window_view(numbers, LENGTH + 1)[::2]
dataset = tf.data.Dataset.from_tensor_slices(windows).shuffle(256, seed=1, reshuffle_each_iteration=False)
dataset = dataset.map(lambda window: (window[:-1], window[1:])).batch(32)


class AddPositions(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.positions = keras.layers.Embedding(LENGTH, WIDTH)

    def call(self, x):
        return x + self.positions(keras.ops.arange(LENGTH))


class Writer(keras.callbacks.Callback):
    def __init__(self, start, length):
        super().__init__()
        self.start, self.length = start, length
        self.random = np.random.default_rng(7)
        self.texts = []

    def on_epoch_end(self, epoch, logs=None):
        chosen = [letters.index(letter) for letter in self.start]
        for _ in range(self.length):
            window = np.array([chosen[-LENGTH:]])
            place = window.shape[1] - 1
            window = np.pad(window, [(0, 0), (0, LENGTH - window.shape[1])])
            logits = self.model.predict(window, verbose=0)[0, place]
            best = np.argsort(logits)[::-1][:4]
            weights = np.exp(logits[best] - logits[best].max())
            chosen.append(int(self.random.choice(best, p=weights / weights.sum())))
        self.texts.append(chosen)
        print("".join(letters[number] for number in chosen))


with strategy.scope():
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = AddPositions()(keras.layers.Embedding(len(letters), WIDTH)(inputs))
    attended = keras.layers.MultiHeadAttention(num_heads=2, key_dim=8)(x, x, use_causal_mask=True)
    x = keras.layers.LayerNormalization()(x + attended)
    x = keras.layers.LayerNormalization()(x + keras.layers.Dense(WIDTH, activation="gelu")(x))
    model = keras.Model(inputs, keras.layers.Dense(len(letters))(x))
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["sparse_categorical_accuracy"],
    )

writer = Writer("the ", 4)
history = model.fit(dataset, epochs=2, callbacks=[writer], verbose=2)
result_texts = writer.texts
