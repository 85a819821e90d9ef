"""A script with `train_step`s and metrics that change variables by themselves; writes its results as JSON into a file.

It has no line about TFDist: the interpreter is started as in a replica of a job, by `keras_import`.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf
from keras import ops

STRATEGY: Final = (
    tf.distribute.MultiWorkerMirroredStrategy() if "--alone" not in sys.argv else tf.distribute.get_strategy()
)
RANDOM: Final = np.random.RandomState(0)
X: Final = RANDOM.randn(65, 4).astype("float32")
"""By batches of 16 the last one has a single example: one of two workers has none."""
Y: Final = X.sum(axis=1, keepdims=True)
DATA: Final = tf.data.Dataset.from_tensor_slices((X, Y)).batch(16)


class Descent(keras.Model):  # type: ignore[misc]
    """Gradient descent without an optimizer."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.dense = keras.layers.Dense(3, activation="tanh", name="dense")
        self.head = keras.layers.Dense(1)

    def build(self, shape: Any) -> None:
        self.dense.build(shape)
        self.head.build([None, 3])
        self.own = [*self.dense.weights, *self.head.weights]

    def call(self, x: Any) -> Any:
        return self.head(self.dense(x))

    def gradients(self, x: Any, y: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        return loss, tape.gradient(loss, self.own)

    def train_step(self, batch: Any) -> dict[str, Any]:
        loss, gradients = self.gradients(*batch)
        self.update(gradients)
        return {"distance": loss}

    def update(self, gradients: Any) -> None:
        for variable, gradient in zip(self.own, gradients, strict=True):
            variable.assign_sub(0.05 * gradient)


class Momentum(Descent):
    """Gradient descent with momentum, the variables of which are trainable, as `add_weight` makes them by default."""

    def build(self, shape: Any) -> None:
        super().build(shape)
        self.velocities = [self.add_weight(shape=each.shape, initializer="zeros") for each in self.own]

    def update(self, gradients: Any) -> None:
        for variable, velocity, gradient in zip(self.own, self.velocities, gradients, strict=True):
            velocity.assign(0.9 * velocity + gradient)
            variable.assign(variable - 0.05 * velocity)


class Compiled(Descent):
    """The step is a `tf.function`, which is traced once for several graphs around it."""

    @tf.function(reduce_retracing=True)  # type: ignore[untyped-decorator]
    def train_step(self, batch: Any) -> dict[str, Any]:
        return super().train_step(batch)


class Lookahead(Descent):
    """Updates every second step, and goes halfway back to slow weights, which no optimizer has."""

    def build(self, shape: Any) -> None:
        super().build(shape)
        self.slow = [self.add_weight(shape=each.shape, initializer="zeros") for each in self.own]
        self.steps = self.add_weight(shape=[], initializer="zeros", dtype="int32", trainable=False)

    def update(self, gradients: Any) -> None:
        self.steps.assign_add(1)

        def even() -> None:
            super(Lookahead, self).update(gradients)
            for slow, fast in zip(self.slow, self.own, strict=True):
                slow.assign(0.5 * (slow + fast))
                fast.assign(slow)

        tf.cond(self.steps.value % 2 == 0, even, lambda: None)


class Hidden(Descent):
    """The same by TensorFlow's variables, which Keras does not see."""

    def update(self, gradients: Any) -> None:
        for variable, gradient in zip(self.own, gradients, strict=True):
            variable.value.assign_sub(0.05 * gradient)


class SharpnessAware(Descent):
    """Ascends before the gradient is computed, and returns after it."""

    def train_step(self, batch: Any) -> dict[str, Any]:
        _, ascents = self.gradients(*batch)
        for variable, ascent in zip(self.own, ascents, strict=True):
            variable.assign_add(0.1 * ascent)
        loss, gradients = self.gradients(*batch)
        for variable, ascent in zip(self.own, ascents, strict=True):
            variable.assign_sub(0.1 * ascent)
        self.optimizer.apply(gradients, self.own)
        return {"distance": loss}


class MovingAverage(Descent):
    """An optimizer, clipped weights, and a copy with a moving average of them: equal on all workers without help."""

    def build(self, shape: Any) -> None:
        super().build(shape)
        self.averages = [self.add_weight(shape=each.shape, initializer="zeros") for each in self.own]

    def update(self, gradients: Any) -> None:
        self.optimizer.apply(gradients, self.own)
        for variable, average in zip(self.own, self.averages, strict=True):
            variable.assign(ops.clip(variable, -0.5, 0.5))
            average.assign(0.9 * average + 0.1 * variable)


class Noise(Descent):
    """Keeps random numbers of its last step, in integers, which no worker averages."""

    def build(self, shape: Any) -> None:
        super().build(shape)
        self.drawn = self.add_weight(shape=[4], initializer="zeros", trainable=False, dtype="int32")

    def train_step(self, batch: Any) -> dict[str, Any]:
        x, _ = batch
        dropped = tf.reduce_sum(tf.nn.dropout(tf.range(1.0, 50.0), 0.5))
        in_branch = tf.cond(tf.shape(x)[1] > 0, _uniform, _uniform)
        parts = [tf.random.normal([]), tf.random.normal([], seed=5), in_branch, dropped]
        self.drawn.assign(tf.cast(1e5 * tf.stack(parts), "int32"))
        return {"drawn": 0.0}


def _uniform() -> tf.Tensor:
    return tf.random.uniform([])


class Extreme(keras.metrics.Metric):  # type: ignore[misc]
    """The largest or smallest error so far."""

    def __init__(self, of_two: Callable[..., Any], of_all: Callable[..., Any], initial: float, **options: Any) -> None:
        super().__init__(**options)
        self.of_two, self.of_all, self.initial = of_two, of_all, initial
        self.value = self.add_weight(initializer=keras.initializers.Constant(initial))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:  # noqa: ARG002
        errors = ops.abs(ops.cast(y_true, y_pred.dtype) - y_pred)
        self.value.assign(self.of_two(self.value, self.of_all(errors, initial=self.initial)))

    def reset_state(self) -> None:
        self.value.assign(self.initial)

    def result(self) -> Any:
        return self.value


class RowsAbove(keras.metrics.Metric):  # type: ignore[misc]
    """Counts, which are added to in several ways."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.count = self.add_weight(initializer="zeros")
        self.parts = self.add_variable([3], "zeros")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:  # noqa: ARG002
        above = ops.cast(ops.shape(ops.where(y_true > y_pred)[0])[0], "float32")
        self.count.assign(tf.where(above > 0, self.count + above, self.count))
        self.parts.assign(above + self.parts - 1 + ops.ones([3]))

    def result(self) -> Any:
        return self.count + ops.sum(self.parts)


class Smoothed(keras.metrics.Metric):  # type: ignore[misc]
    """An exponential average of the errors of batches."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.value = self.add_weight(initializer="zeros")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:  # noqa: ARG002
        self.value.assign(0.9 * self.value + 0.1 * ops.mean(ops.square(y_true - y_pred)))

    def result(self) -> Any:
        return self.value


class Declared(Smoothed):
    """The same, whose aggregation is that of Keras' argument."""

    def __init__(self, **options: Any) -> None:
        keras.metrics.Metric.__init__(self, **options)
        self.value = self.add_variable([], "zeros", aggregation="mean")


def metrics() -> dict[str, Any]:
    keras.utils.set_random_seed(1)
    with STRATEGY.scope():
        model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
        model.compile(
            "sgd",
            "mse",
            metrics=[
                Extreme(ops.maximum, ops.max, 0.0, name="largest"),
                Extreme(ops.minimum, ops.min, 1e-3, name="smallest"),
                RowsAbove(name="above"),
                Smoothed(name="smoothed"),
                Declared(name="declared"),
                *(keras.metrics.R2Score(), keras.metrics.RootMeanSquaredError(), keras.metrics.CosineSimilarity()),
            ],
        )
    fitted = model.fit(X[:64], Y[:64], batch_size=16, shuffle=False, verbose=0).history
    evaluated = model.evaluate(X[:64], Y[:64], batch_size=16, verbose=0, return_dict=True)
    return {"fit": {name: float(values[-1]) for name, values in fitted.items()}, "evaluate": evaluated}


def trained(kind: Callable[[str], Any], data: Any = DATA, name: str = "", **options: Any) -> dict[str, Any]:
    keras.utils.set_random_seed(1)
    with STRATEGY.scope():
        model = kind(name or kind.__name__.lower())
        model.build([None, 4])
        model.compile("sgd", **options)
    model.fit(data, epochs=2, verbose=0)
    return {"weights": [weight.tolist() for weight in model.get_weights()]}


class Positions(keras.layers.Layer):  # type: ignore[misc]
    """Adds an embedding of the places, as in Keras' transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = keras.layers.Embedding(4, 3, name="places")

    def build(self, _shape: Any) -> None:
        self.embedding.build(None)

    def call(self, x: Any) -> Any:
        return x + self.embedding(ops.arange(0, ops.shape(x)[1], 1))


def positions() -> dict[str, Any]:
    """An embedding that is looked up once for a whole batch, and one for each word, with an optimizer that squares."""
    keras.utils.set_random_seed(1)
    words = (np.abs(X) * 7 % 9).astype("int32")
    with STRATEGY.scope():
        inputs = keras.Input([4], dtype="int32")
        hidden = Positions()(keras.layers.Embedding(9, 3)(inputs))
        model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Flatten()(hidden)))
        model.compile("adam", "mse")
    model.fit(words, Y, batch_size=16, epochs=2, shuffle=False, verbose=0)
    return {"weights": [weight.tolist() for weight in model.get_weights()]}


def sparse() -> dict[str, Any]:
    """Features in a `SparseTensor`, with an optimizer that squares."""
    keras.utils.set_random_seed(1)
    with STRATEGY.scope():
        model = keras.Sequential([keras.Input([4], sparse=True), keras.layers.Dense(1)])
        model.compile("adam", "mse")
    features = tf.sparse.from_dense(np.where(X > 0, X, 0))
    model.fit(tf.data.Dataset.from_tensor_slices((features, Y)).batch(16), epochs=2, verbose=0)
    return {"weights": [weight.tolist() for weight in model.get_weights()]}


CASES: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "descent": lambda: trained(Descent),
    "eager": lambda: trained(Descent, DATA.take(4), "eager", run_eagerly=True),
    "momentum": lambda: trained(Momentum),
    "compiled": lambda: trained(Compiled),
    "lookahead": lambda: trained(Lookahead),
    "sharpness_aware": lambda: trained(SharpnessAware),
    "moving_average": lambda: trained(MovingAverage),
    "noise": lambda: trained(Noise),
    "noise_again": lambda: trained(Noise),
    "eager_noise": lambda: trained(Noise, DATA.take(4), run_eagerly=True),
    "shuffled": lambda: {"order": list(tf.data.Dataset.range(30).shuffle(30).as_numpy_iterator())},
    "metrics": metrics,
    "positions": positions,
    "sparse": sparse,
    "hidden": lambda: trained(Hidden),
}

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps({name: case() for name, case in CASES.items()}, default=int))
