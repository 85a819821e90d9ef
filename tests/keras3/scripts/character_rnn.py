"""Write text character by character with a recurrent network that was trained on windows of a text."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(60)

TEXT = "the cat sat on the mat. the dog sat on the log. the cow ate the hay by the bay. " * 20
LENGTH = 20

vocabulary = sorted(set(TEXT))
numbers = keras.layers.StringLookup(vocabulary=vocabulary)
letters = keras.layers.StringLookup(vocabulary=numbers.get_vocabulary(), invert=True)
ids = numbers(tf.strings.unicode_split(TEXT, "UTF-8"))

windows = tf.data.Dataset.from_tensor_slices(ids).batch(LENGTH + 1, drop_remainder=True)
dataset = windows.map(lambda window: (window[:-1], window[1:])).shuffle(100, seed=4).batch(15)

strategy = tf.distribute.MultiWorkerMirroredStrategy()


class Writer(keras.Model):
    def __init__(self, size, width):
        super().__init__()
        self.embedding = keras.layers.Embedding(size, 8)
        self.rnn = keras.layers.GRU(width, return_sequences=True, return_state=True)
        self.outputs_of_step = keras.layers.Dense(size)

    def call(self, inputs, states=None, return_state=False, training=False):
        outputs, states = self.rnn(self.embedding(inputs), initial_state=states, training=training)
        outputs = self.outputs_of_step(outputs)
        return (outputs, states) if return_state else outputs


with strategy.scope():
    model = Writer(numbers.vocabulary_size(), 24)
    model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    for inputs, _ in dataset.take(1):
        model(inputs)

history = model.fit(dataset, epochs=2, verbose=2)


def write(start, count):
    inputs = numbers(tf.strings.unicode_split([start], "UTF-8")).to_tensor()
    written, states = [start], None
    for _ in range(count):
        outputs, states = model(inputs, states=states, return_state=True)
        inputs = tf.argmax(outputs[:, -1:], axis=-1)
        written.append(letters(inputs)[0, 0].numpy().decode())
    return "".join(written)


result_text = write("the ", 30)
