"""Sizes that nothing divides: a last batch with fewer examples than there are workers, in each data set."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(35)

random = np.random.RandomState(0)
x = random.normal(size=(129, 5)).astype("float32")
y = (x[:, :1] + x[:, 1:2] > 0.0).astype("float32")


def batches(count):
    return tf.data.Dataset.from_tensor_slices((x[:count], y[:count])).batch(32)


def make_model():
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((5,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
        )
        model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy", "auc"])
    return model


# 129 = 4 * 32 + 1: the last batch has one example, for one of the workers.
one_left_model = make_model()
one_left_history = one_left_model.fit(batches(129), epochs=2, validation_data=batches(33), verbose=2)

# 119 = 3 * 32 + 23: the parts of the last batch are of 16 and 7 examples.
parts_model = make_model()
parts_history = parts_model.fit(batches(119), epochs=2, validation_data=batches(55), verbose=2)

# Arrays with fewer examples than a batch.
small_model = make_model()
small_history = small_model.fit(x[:9], y[:9], batch_size=32, epochs=2, shuffle=False, verbose=2)

scores = {"one left": parts_model.evaluate(batches(97), verbose=0), "one": parts_model.evaluate(batches(1), verbose=0)}
