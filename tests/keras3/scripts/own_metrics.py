"""Write metrics: a largest error, a confusion matrix, a ratio of two sums, with weights of examples."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

strategy = tf.distribute.MultiWorkerMirroredStrategy()
keras.utils.set_random_seed(63)

CLASSES = 3


class LargestError(keras.metrics.Metric):
    def __init__(self, name="largest_error", **options):
        super().__init__(name=name, **options)
        self.largest = self.add_variable(shape=(), initializer="zeros", name="largest")

    def update_state(self, y_true, y_pred, sample_weight=None):
        chosen = ops.take_along_axis(y_pred, ops.cast(ops.reshape(y_true, (-1, 1)), "int32"), axis=1)
        self.largest.assign(ops.maximum(self.largest, ops.max(1.0 - chosen)))

    def result(self):
        return self.largest


class Confusions(keras.metrics.Metric):
    """The share of examples that are taken for the class after their own."""

    def __init__(self, classes, name="confusions", **options):
        super().__init__(name=name, **options)
        self.classes = classes
        self.matrix = self.add_weight(shape=(classes, classes), initializer="zeros", name="matrix")

    def update_state(self, y_true, y_pred, sample_weight=None):
        rows = ops.one_hot(ops.cast(ops.reshape(y_true, (-1,)), "int32"), self.classes)
        columns = ops.one_hot(ops.argmax(y_pred, axis=1), self.classes)
        if sample_weight is not None:
            rows = rows * ops.reshape(ops.cast(sample_weight, "float32"), (-1, 1))
        self.matrix.assign_add(ops.matmul(ops.transpose(rows), columns))

    def result(self):
        return ops.trace(ops.roll(self.matrix, -1, axis=1)) / ops.maximum(ops.sum(self.matrix), 1e-6)

    def reset_state(self):
        self.matrix.assign(ops.zeros((self.classes, self.classes)))


class Margin(keras.metrics.Metric):
    """The mean distance between the best and the second best class."""

    def __init__(self, name="margin", **options):
        super().__init__(name=name, **options)
        self.total = self.add_variable(shape=(), initializer="zeros")
        self.count = self.add_variable(shape=(), initializer="zeros", dtype="int32")
        self.smallest = self.add_variable(shape=(), initializer="ones")

    def update_state(self, y_true, y_pred, sample_weight=None):
        best, _ = ops.top_k(y_pred, 2)
        margin = best[:, 0] - best[:, 1]
        self.total.assign(self.total + ops.sum(margin))
        self.count.assign(self.count + ops.shape(margin)[0])
        self.smallest.assign(ops.minimum(self.smallest, ops.min(margin)))

    def result(self):
        return {"margin": self.total / ops.cast(self.count, "float32"), "smallest_margin": self.smallest}

    def reset_state(self):
        self.total.assign(0.0)
        self.count.assign(0)
        self.smallest.assign(1.0)


random = np.random.RandomState(0)
x = random.normal(size=(161, 8)).astype("float32")
y = np.argmax(x[:, :CLASSES], axis=1)
weights = random.uniform(0.0, 2.0, 161).astype("float32")

with strategy.scope():
    inputs = keras.Input((8,))
    outputs = keras.layers.Dense(CLASSES, activation="softmax")(keras.layers.Dense(16, activation="relu")(inputs))
    model = keras.Model(inputs, outputs)
    model.compile(
        keras.optimizers.RMSprop(1e-3),
        "sparse_categorical_crossentropy",
        metrics=[LargestError(), Margin(), keras.metrics.SparseTopKCategoricalAccuracy(k=2)],
        weighted_metrics=[Confusions(CLASSES), "sparse_categorical_accuracy"],
    )

# The last batch has one row.
history = model.fit(x, y, sample_weight=weights, batch_size=32, epochs=3, verbose=2)
scores = model.evaluate(x, y, sample_weight=weights, batch_size=50, verbose=0, return_dict=True)
