"""The training step has what Keras has: additional losses, random numbers, and steps that change nothing."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from support.combinations import half_quick
from trainer.two_replicas import distributed, on_replicas

from tfdist_trainer import step_variables
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.keras_compat import raw
from tfdist_trainer.step import EvaluateStep, StepOptions, TrainStep, metric_sums
from tfdist_trainer.strategies.replica_group import ReplicaGroup

pytestmark = pytest.mark.trainer

RATE = 0.1
X = np.array([[1.0, 2.0], [-1.0, 0.5], [2.0, -2.0], [0.0, 1.0]], np.float32)
Y = np.array([[1.0], [2.0], [-1.0], [0.5]], np.float32)


class ModelProgram:
    """A program of a given model."""

    def __init__(self, model: Callable[[], Any], loss: Callable[[Any, Any], Any] | None = None) -> None:
        self.model = model
        self._loss = loss or (lambda labels, predictions: tf.reduce_sum((labels - predictions) ** 2, axis=-1))

    def loss(self, labels: Any, predictions: Any) -> Any:
        return self._loss(labels, predictions)

    def metrics(self) -> tuple[()]:
        return ()


def part(x: np.ndarray, y: np.ndarray, weights: list[float], valid: list[bool] | None = None) -> tuple[Any, ...]:
    """Return the batch of one replica."""
    return x, y, np.asarray(weights, np.float32), np.asarray([True] * len(x) if valid is None else valid)


class Trained:
    """A model that has been trained for some steps."""

    def __init__(
        self,
        gang: ReplicaGroup,
        program: Any,
        batches: list[tuple[Any, ...]],
        optimizer: Any = None,
        steps: int = 1,
        **options: Any,
    ) -> None:
        keras.utils.set_random_seed(1)
        with gang.strategy.scope():
            self.model = program.model()
            self.optimizer = keras.optimizers.SGD(RATE) if optimizer is None else optimizer()
            self.optimizer.build(self.model.trainable_variables)
        self.before = self.values()
        train = TrainStep(gang, program, self.model, self.optimizer, StepOptions(**options))
        self.stats = train.run(distributed(gang, batches), steps)
        self.loss = metric_sums(program).results(self.stats.sums)["loss"]

    def values(self) -> list[np.ndarray]:
        """Return the first replica's values of all variables."""
        return [on_replicas_first(variable) for variable in (*self.model.variables, *self.optimizer.variables)]

    @property
    def kernel(self) -> np.ndarray:
        return np.asarray(self.model.trainable_variables[0].numpy())


def on_replicas_first(variable: Any) -> np.ndarray:
    return np.array(tf.distribute.get_strategy().experimental_local_results(raw(variable))[0].numpy())


class Added(keras.layers.Layer):  # type: ignore[misc]  # Keras ships no types
    """Adds the mean of its inputs' squares to the loss."""

    def call(self, inputs: Any) -> Any:
        self.add_loss(keras.ops.mean(inputs**2))
        return inputs


def line(*, regularizer: Any = None, adds: bool = False) -> Callable[[], Any]:
    def model() -> Any:
        start = keras.initializers.Constant([[1.0], [-2.0]])
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer=start, kernel_regularizer=regularizer)
        return keras.Sequential([keras.layers.Input([2]), dense, *([Added()] if adds else [])])

    return model


def by_keras(model: Any, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """Return loss and kernel after a step of Keras' own `fit`."""
    model.compile(keras.optimizers.SGD(RATE), loss="mse")
    history = model.fit(x, y, batch_size=len(x), verbose=0).history
    return history["loss"][0], np.asarray(model.trainable_variables[0].numpy())


@pytest.mark.parametrize(("sizes", "adds", "compiled"), half_quick([(4,), (3, 1)], [True, False], [True, False]))
def test_additional_losses_count_once_as_in_fit(
    sizes: tuple[int, ...], adds: bool, compiled: bool, gang: ReplicaGroup, one: ReplicaGroup
) -> None:
    # given
    make = line(regularizer=keras.regularizers.L2(0.3), adds=adds)
    loss, kernel = by_keras(make(), X, Y)
    ends = np.cumsum(sizes)
    rows = [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    # when
    parts = [part(X[list(each)], Y[list(each)], [1.0] * len(each)) for each in rows]
    trained = Trained(one if len(sizes) == 1 else gang, ModelProgram(make), parts, compiled=compiled)
    # then
    np.testing.assert_allclose(trained.kernel, kernel, rtol=1e-5)
    assert trained.loss == pytest.approx(loss, rel=1e-5)


IN_SOME_STEPS: dict[str, dict[str, Any]] = {
    "accumulation": {"gradient_accumulation_steps": 2},
    "averages that become the weights": {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 3},
}


SERVERS: Any = SimpleNamespace(member=SimpleNamespace(cluster={"ps": ["127.0.0.1:1"]}), replicas_per_member=1)


@pytest.mark.parametrize("options", IN_SOME_STEPS.values(), ids=IN_SOME_STEPS.keys())
def test_an_optimizer_that_updates_in_some_steps_is_rejected_where_no_branch_can_update(
    options: dict[str, Any], gang: ReplicaGroup, one: ReplicaGroup
) -> None:
    for unsupported in (SERVERS, gang):
        with pytest.raises(ConfigurationError, match="gradient_accumulation_steps or ema_overwrite_frequency"):
            step_variables.check_optimizer(unsupported, keras.optimizers.SGD(**options))
        step_variables.check_optimizer(unsupported, keras.optimizers.SGD(use_ema=True))
    step_variables.check_optimizer(one, keras.optimizers.SGD(**options))


def test_additional_losses_are_means_over_examples_whatever_these_weigh(gang: ReplicaGroup) -> None:
    # given
    make = line(adds=True)
    weights, kernel = np.array([3.0, 1.0, 2.0], np.float32), tf.Variable([[1.0], [-2.0]])
    with tf.GradientTape() as tape:
        predictions = tf.matmul(X[:3], kernel)
        errors = tf.reduce_sum((predictions - Y[:3]) ** 2, axis=-1)
        loss = tf.reduce_sum(errors * weights) / 6 + tf.reduce_mean(predictions**2)
    expected = kernel - RATE * tape.gradient(loss, kernel)
    # when
    trained = Trained(gang, ModelProgram(make), [part(X[:2], Y[:2], [3.0, 1.0]), part(X[2:3], Y[2:3], [2.0])])
    # then
    np.testing.assert_allclose(trained.kernel, expected, rtol=1e-5)


def test_the_loss_that_is_reported_is_the_one_that_was_trained_with_also_if_it_is_random(one: ReplicaGroup) -> None:
    """Given a loss of w times a random number, whose gradient is that number."""
    program = ModelProgram(line(), lambda _labels, predictions: tf.random.uniform([4]) * predictions[:, 0])
    x = np.tile(np.array([[1.0, 0.0]], np.float32), (4, 1))
    trained = Trained(one, program, [part(x, Y, [1.0] * 4)])
    gradient = (1.0 - float(trained.kernel[0, 0])) / RATE
    assert trained.loss == pytest.approx(gradient, rel=1e-5)


def test_an_evaluation_has_the_additional_losses_as_that_of_keras(gang: ReplicaGroup) -> None:
    make = line(regularizer=keras.regularizers.L2(0.3), adds=True)
    model = make()
    model.compile(loss="mse")
    expected = model.evaluate(X, Y, batch_size=4, verbose=0)
    program = ModelProgram(make)
    with gang.strategy.scope():
        model = program.model()
    parts = [part(X[:2], Y[:2], [1.0] * 2), part(X[2:], Y[2:], [1.0] * 2)]
    sums = EvaluateStep(gang, program, model).run(distributed(gang, parts), tf.constant(1)).numpy()  # type: ignore[arg-type]
    assert metric_sums(program).results(sums)["loss"] == pytest.approx(expected, rel=1e-5)  # type: ignore[arg-type]


class Logarithm(keras.layers.Layer):  # type: ignore[misc]
    """Its gradient at 0 is infinite."""

    def call(self, inputs: Any) -> Any:
        return keras.ops.log(inputs**2)


def logarithm() -> Any:
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    return keras.Sequential([keras.layers.Input([2]), dense, Logarithm()])


@pytest.mark.parametrize(("bad", "alone", "valid"), half_quick([0.0, np.nan], [True, False], [True, False]))
def test_an_example_that_does_not_count_cannot_spoil_the_gradient(
    bad: float, alone: bool, valid: bool, gang: ReplicaGroup
) -> None:
    # given
    program = ModelProgram(logarithm)
    counted = part(X[:2], Y[:2], [1.0] * 2)
    nothing = np.full([2, 2], bad, np.float32)
    # when
    if alone:
        parts = [counted, part(nothing, Y[:2], [0.0] * 2, [valid] * 2)]
    else:
        mixed = np.concatenate([X[1:2], nothing[:1]])
        parts = [part(X[[0, 0]], Y[[0, 0]], [1.0, 0.0]), part(mixed, Y[[1, 1]], [1.0, 0.0], [True, valid])]
    trained = Trained(gang, program, parts)
    # then
    expected = Trained(gang, program, [part(X[:1], Y[:1], [1.0]), part(X[1:2], Y[1:2], [1.0])])
    np.testing.assert_allclose(trained.kernel, expected.kernel, rtol=1e-6)
    assert trained.stats.not_finite == 0


OPTIMIZERS = {
    "adam": keras.optimizers.Adam,
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "averaged": lambda: keras.optimizers.AdamW(0.1, use_ema=True),
}


def normalized() -> Any:
    layers = keras.layers
    return keras.Sequential(
        [layers.Input([2]), layers.Dense(3), layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(1)]
    )


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_skipped_step_changes_nothing(name: str, replicas: int, gang: ReplicaGroup, one: ReplicaGroup) -> None:
    # given
    bad = np.array([[np.inf]], np.float32)
    parts = [part(X[:1], Y[:1], [1.0]), part(X[1:2], bad, [1.0])][-replicas:]
    group = one if replicas == 1 else gang
    # when
    trained = Trained(group, ModelProgram(normalized), parts, OPTIMIZERS[name], steps=2, skip=True)
    # then
    assert trained.stats.not_finite == 2
    for before, after in zip(trained.before, trained.values(), strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_step_that_is_not_skipped_is_the_same_with_and_without_the_policy(
    replicas: int, gang: ReplicaGroup, one: ReplicaGroup
) -> None:
    group, parts = one if replicas == 1 else gang, [part(X[:2], Y[:2], [1.0] * 2), part(X[2:], Y[2:], [1.0] * 2)]
    results = [
        Trained(group, ModelProgram(normalized), parts[-replicas:], keras.optimizers.Adam, steps=3, skip=skip).values()
        for skip in (False, True)
    ]
    for without, with_policy in zip(*results, strict=True):
        np.testing.assert_allclose(with_policy, without, rtol=1e-5, atol=1e-7)


class Noise(keras.layers.Layer):  # type: ignore[misc]
    """Keeps the number that it drew last."""

    def __init__(self) -> None:
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator(7)

    def build(self, _shape: Any) -> None:
        self.drawn = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            self.drawn.assign(keras.random.uniform((), seed=self.seed_generator))
        return inputs


def noisy() -> Any:
    return keras.Sequential([keras.layers.Input([2]), Noise(), keras.layers.Dense(1, kernel_initializer="normal")])


def test_each_replica_draws_numbers_of_its_own_and_begins_with_the_same_weights(
    gang: ReplicaGroup, one: ReplicaGroup
) -> None:
    parts = [part(X[:1], Y[:1], [1.0]), part(X[1:2], Y[1:2], [1.0])]
    trained = Trained(gang, ModelProgram(noisy), parts)
    drawn = next(each for each in trained.model.non_trainable_variables if "seed" not in each.path)
    first, second = on_replicas(gang, raw(drawn))
    assert first != second
    alone = Trained(one, ModelProgram(noisy), parts[:1])
    (of_one,) = [each.numpy() for each in alone.model.non_trainable_variables if "seed" not in each.path]
    assert first == of_one, "the first replica draws what one process draws"
    kernels = on_replicas(gang, raw(trained.model.trainable_variables[0]))
    np.testing.assert_array_equal(kernels[0], kernels[1])
