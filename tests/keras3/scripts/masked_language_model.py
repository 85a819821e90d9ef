"""Guess the words that are hidden in sentences: the loss counts these words alone."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(52)

VOCABULARY_SIZE = 24
HIDDEN = 23
LENGTH = 12
WIDTH = 16

random = np.random.RandomState(0)
# A sentence counts on from any word, so that a hidden one follows from its neighbours.
sentences = (random.randint(0, 20, (192, 1)) + np.arange(LENGTH)) % 20
hidden = random.uniform(size=sentences.shape) < 0.15
inputs = np.where(hidden, HIDDEN, sentences)
dataset = tf.data.Dataset.from_tensor_slices((inputs, sentences, hidden.astype("float32"))).batch(32)


class AddPositions(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.positions = keras.layers.Embedding(LENGTH, WIDTH)

    def call(self, x):
        return x + self.positions(keras.ops.arange(LENGTH))


class MaskedLanguageModel(keras.Model):
    def train_step(self, data):
        words, labels, weights = data
        with tf.GradientTape() as tape:
            predictions = self(words, training=True)
            loss = self.compute_loss(y=labels, y_pred=predictions, sample_weight=weights)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return self.compute_metrics(words, labels, predictions, weights)


with strategy.scope():
    words = keras.Input((LENGTH,), dtype="int32")
    x = AddPositions()(keras.layers.Embedding(VOCABULARY_SIZE, WIDTH)(words))
    attended = keras.layers.MultiHeadAttention(num_heads=2, key_dim=WIDTH // 2)(x, x, x)
    x = keras.layers.LayerNormalization(epsilon=1e-6)(x + attended)
    outputs = keras.layers.Dense(VOCABULARY_SIZE, activation="softmax")(x)
    model = MaskedLanguageModel(words, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    )


class ShowGuess(keras.callbacks.Callback):
    def __init__(self, sentence):
        super().__init__()
        self.sentence = sentence
        self.guesses = []

    def on_epoch_end(self, epoch, logs=None):
        [guess] = self.model.predict(self.sentence[None], verbose=0)
        place = int(np.argmax(self.sentence == HIDDEN))
        self.guesses.append(np.argsort(guess[place])[::-1][:3])
        print(self.sentence, "->", self.guesses[-1])


show = ShowGuess(np.array([3, 4, 5, 6, HIDDEN, 8, 9, 10, 11, 12, 13, 14]))
history = model.fit(dataset, epochs=3, callbacks=[show], verbose=2)
result_guesses = show.guesses
