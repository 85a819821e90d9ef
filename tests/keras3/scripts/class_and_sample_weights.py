"""Weights of classes and of examples, and metrics that count them."""

import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(26)

random = np.random.RandomState(0)
x = random.normal(size=(250, 5)).astype("float32")
y = (x[:, 0] > 1.0).astype("int32")
weights = random.uniform(0.0, 2.0, 250).astype("float32")


def make_model():
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((5,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2, activation="softmax")]
        )
        model.compile(
            optimizer="adam",
            loss="sparse_categorical_crossentropy",
            metrics=["accuracy"],
            weighted_metrics=[keras.metrics.SparseCategoricalAccuracy(name="weighted_accuracy")],
        )
    return model


class_model = make_model()
class_history = class_model.fit(x, y, batch_size=32, epochs=2, shuffle=False, class_weight={0: 0.5, 1: 3.0}, verbose=2)

sample_model = make_model()
sample_history = sample_model.fit(x, y, batch_size=32, epochs=2, shuffle=False, sample_weight=weights, verbose=2)

# The last batch of a data set has weights of zero only.
weights[224:] = 0.0
dataset = tf.data.Dataset.from_tensor_slices((x, y, weights)).batch(32)
dataset_model = make_model()
dataset_history = dataset_model.fit(dataset, epochs=2, verbose=2)
scores = dataset_model.evaluate(dataset, verbose=0, return_dict=True)
