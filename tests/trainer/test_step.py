"""The computation on two logical devices of one process: the values that replicas sum and those that they average."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from trainer.two_replicas import distributed, on_replicas

from tfdist_trainer import step_clock
from tfdist_trainer.keras_compat import raw
from tfdist_trainer.kernels import adam, batch_normalization
from tfdist_trainer.metrics.additive import WeightedMean
from tfdist_trainer.programs import choose
from tfdist_trainer.step import EvaluateStep, StepOptions, StepStats, TrainStep, metric_sums
from tfdist_trainer.step_variables import BatchNormSync
from tfdist_trainer.strategies import reduction
from tfdist_trainer.strategies.replica_group import ReplicaGroup

pytestmark = pytest.mark.trainer

CONFIG: dict[str, Any] = {"data": {}, "imageShape": [4, 4, 1], "classes": 3, "model": "mlp"}


def batch(images: np.ndarray, labels: np.ndarray, present: list[bool]) -> tuple[Any, ...]:
    return images, labels, np.asarray(present, np.float32), np.asarray(present)


def of_three_steps(gang: ReplicaGroup, program: Any) -> StepStats:
    """Train a new model of `program` on black images, and return the statistics."""
    with gang.strategy.scope():
        model, optimizer = program.model(), program.optimizer(1.0)
        optimizer.build(model.trainable_variables)
    images, labels = np.zeros((2, 4, 4, 1), np.uint8), np.array([0, 1])
    iterator = distributed(gang, [batch(images, labels, [True] * 2)] * 2)
    return TrainStep(gang, program, model, optimizer, StepOptions()).run(iterator, 3)


def test_statistics_of_batch_normalization_are_equal_after_averaging(gang: ReplicaGroup) -> None:
    program = choose("image_classification", CONFIG | {"batchNormalization": True}).create()
    with gang.strategy.scope():
        model, optimizer = program.model(), program.optimizer(1.0)
        optimizer.build(model.trainable_variables)
    dark, bright = np.zeros((2, 4, 4, 1), np.uint8), np.full((2, 4, 4, 1), 255, np.uint8)
    label = np.array([0, 1])
    iterator = distributed(gang, [batch(dark, label, [True] * 2), batch(bright, label, [True] * 2)])
    TrainStep(gang, program, model, optimizer, StepOptions()).run(iterator, 3)
    moving = [v.value for v in model.non_trainable_variables if "/moving_" in v.path]
    before = [on_replicas(gang, variable) for variable in moving]
    assert any(not np.allclose(values[0], values[1]) for values in before), "else the test shows nothing"
    BatchNormSync(gang, model).run(1.0)
    after = [on_replicas(gang, variable) for variable in moving]
    for means, variances, mean, variance in zip(before[::2], before[1::2], after[::2], after[1::2], strict=True):
        np.testing.assert_allclose(mean[0], means.mean(axis=0), rtol=1e-6, atol=1e-7)
        of_all = variances.mean(axis=0) + means.var(axis=0)
        np.testing.assert_allclose(variance[0], of_all, rtol=1e-6, atol=1e-7, err_msg="that of all examples")
        np.testing.assert_allclose((mean[1], variance[1]), (mean[0], variance[0]))
    for variable in model.trainable_variables:
        values = [v.numpy() for v in gang.strategy.experimental_local_results(variable.value)]
        np.testing.assert_array_equal(values[0], values[1])


def test_float16_starts_with_the_same_scale_of_the_loss_on_any_number_of_replicas(
    gang: ReplicaGroup, one: ReplicaGroup
) -> None:
    """Given batches of which the sum of gradients, at this scale, has no number in float16."""
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (128, 4, 4, 1)).astype(np.uint8), np.zeros(128, np.int64)
    keras.config.set_dtype_policy("mixed_float16")
    try:
        for group in (one, gang):
            program = choose("image_classification", CONFIG).create()
            with group.strategy.scope():
                model = program.model()
                optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01))
                optimizer.build(model.trainable_variables)
            scale = optimizer.dynamic_scale.numpy()
            iterator = distributed(group, [batch(images, labels, [True] * 128)] * 2)
            TrainStep(group, program, model, optimizer, StepOptions()).run(iterator, 3)
            assert (optimizer.dynamic_scale.numpy(), optimizer.inner_optimizer.iterations.numpy()) == (scale, 3)
    finally:
        keras.config.set_dtype_policy("float32")


def test_absent_examples_count_for_nothing_even_when_they_are_not_numbers(gang: ReplicaGroup) -> None:
    program = choose("image_classification", CONFIG).create()
    with gang.strategy.scope():
        model = program.model()
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (6, 4, 4, 1)).astype(np.uint8)
    labels = np.array([0, 1, 2, 0, 1, 2])
    first = batch(images[:3], labels[:3], [True, True, True])
    second = batch(images[3:], labels[3:], [True, False, False])
    sums = EvaluateStep(gang, program, model).run(distributed(gang, [first, second]), tf.constant(1)).numpy()
    names = metric_sums(program)
    assert names.examples(sums) == 4
    predictions = model(images[:4])
    losses = program.loss(tf.constant(labels[:4]), predictions).numpy()
    assert names.results(sums)["loss"] == pytest.approx(losses.astype(np.float64).mean(), rel=1e-6)
    assert names.results(sums)["accuracy"] == np.mean(np.argmax(predictions, axis=1) == labels[:4])

    nothing = np.full(3, np.nan)
    weighed = WeightedMean("nan", lambda *_: tf.constant(nothing)).sums(labels[:3], labels[:3], np.zeros(3))
    assert list(weighed.numpy()) == [0.0, 0.0]


@pytest.mark.parametrize(("undefined", "bad"), [("metrics", 0), ("loss", 3)])
def test_steps_are_counted_from_the_first_loss_that_is_not_finite_and_a_metric_may_be_so(
    gang: ReplicaGroup, monkeypatch: pytest.MonkeyPatch, undefined: str, bad: int
) -> None:
    program = choose("image_classification", CONFIG).create()

    def undefined_value(labels: tf.Tensor, _predictions: tf.Tensor) -> tf.Tensor:
        return tf.fill(tf.shape(labels), float("nan"))

    made = undefined_value if undefined == "loss" else lambda: [WeightedMean("undefined", undefined_value)]
    monkeypatch.setattr(program, undefined, made)
    stats = of_three_steps(gang, program)
    assert int(stats.not_finite) == bad
    assert int(stats.done) == 3
    assert np.isnan(metric_sums(program).results(stats.sums)["loss" if bad else "undefined"])


@pytest.mark.parametrize("only_last", [False, True], ids=["in each step", "in the last step"])
def test_the_wait_in_the_exchange_is_that_of_all_steps_wherever_it_is_measured(
    only_last: bool, gang: ReplicaGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Counter[int]()  # by thread: each replica is traced in its own

    def time_after(_tensors: Iterable[tf.Tensor], *, due: tf.Tensor | bool) -> tf.Tensor:
        """Return a time that is a second later after each exchange."""
        measured[threading.get_ident()] += 1
        return tf.cast(measured[threading.get_ident()] % 2 == 0, tf.float64) * tf.cast(due, tf.float64)

    monkeypatch.setattr(step_clock, "only_last_steps", lambda: only_last)
    monkeypatch.setattr(reduction, "time_after", time_after)
    program = choose("image_classification", CONFIG).create()
    stats = of_three_steps(gang, program)
    assert stats.exchange_wait == 3


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam": keras.optimizers.Adam,
    "adam-bounded": lambda: keras.optimizers.Adam(0.01, beta_1=0.8, epsilon=1e-3, global_clipnorm=0.5),
    "adamw-scheduled": lambda: keras.optimizers.AdamW(keras.optimizers.schedules.ExponentialDecay(0.01, 2, 0.9)),
    "adam-averaged": lambda: keras.optimizers.Adam(use_ema=True, ema_momentum=0.5),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(), initial_scale=8.0),
}
QUICK = {"adamw-scheduled"}
"""What `make test` runs."""


class OfTheUser(keras.optimizers.Adam):  # type: ignore[misc]  # Keras ships no types
    """An Adam with another rule."""


def updated(
    gang: ReplicaGroup,
    new_optimizer: Callable[[], Any],
    dtype: str = "float32",
    kernel: str = "ResourceApplyAdam",
    **config: Any,
) -> tuple[list[np.ndarray], int]:
    """Return all variables after some steps, on both replicas, and how often the graph has `kernel`."""
    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy(dtype)
    try:
        program = choose("image_classification", CONFIG | config).create()
        with gang.strategy.scope():
            model, optimizer = program.model(), new_optimizer()
            optimizer.build(model.trainable_variables)
    finally:
        keras.config.set_dtype_policy("float32")
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (8, 4, 4, 1)).astype(np.uint8)
    labels = np.array([0, 1, 2, 0, 1, 2, 1, 0])
    parts = [batch(images[part], labels[part], [True] * 4) for part in (slice(4), slice(4, 8))]
    iterator = distributed(gang, parts)
    train = TrainStep(gang, program, model, optimizer, StepOptions())
    assert train.run(iterator, 5).done == 5
    traced: Any = train.graph
    library = traced.get_concrete_function(iterator, tf.constant(1)).graph.as_graph_def().library
    kernels = sum(node.op == kernel for function in library.function for node in function.node_def)
    variables = [raw(variable) for variable in (*model.variables, *optimizer.variables)]
    return [on_replicas(gang, variable) for variable in variables], kernels


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in OPTIMIZERS]
)
def test_one_operation_changes_a_variable_as_keras_does_it_on_all_replicas(
    name: str, gang: ReplicaGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused, kernels = updated(gang, OPTIMIZERS[name])
    monkeypatch.setattr(adam, "fuse", lambda _: None)
    by_keras, none = updated(gang, OPTIMIZERS[name])
    assert (kernels > 0, none) == (True, 0)
    for ours, expected in zip(fused, by_keras, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=2e-5, atol=2e-6)
        np.testing.assert_array_equal(ours[0], ours[-1])


@pytest.mark.parametrize("beta", [0.99, 0.999])
def test_weights_updated_by_the_kernel_stay_those_of_keras(beta: float) -> None:
    # given
    random = np.random.default_rng(0)
    start = random.normal(size=(200, 5)).astype(np.float32)
    variables = [keras.Variable(start), keras.Variable(start)]
    optimizers = [keras.optimizers.Adam(0.01, beta_2=beta) for _ in variables]
    for optimizer, variable in zip(optimizers, variables, strict=True):
        optimizer.build([variable])
    adam.fuse(optimizers[0])
    # when
    for _ in range(100):
        gradient = tf.constant((random.normal(size=start.shape) * random.uniform(0, 2)).astype(np.float32))
        for optimizer, variable in zip(optimizers, variables, strict=True):
            optimizer.apply([gradient], [variable])
    # then
    np.testing.assert_allclose(variables[0].numpy(), variables[1].numpy(), rtol=0, atol=1.5e-6)


def test_what_the_kernel_does_not_know_is_left_to_keras(gang: ReplicaGroup) -> None:
    assert updated(gang, OfTheUser)[1] == 0
    assert updated(gang, lambda: keras.optimizers.Adam(amsgrad=True))[1] == 0
    assert updated(gang, keras.optimizers.SGD)[1] == 0
    assert updated(gang, keras.optimizers.Adam, dtype="float64")[1] == 0


def test_images_are_normalized_by_one_operation_as_keras_does_it(
    gang: ReplicaGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"kernel": "FusedBatchNormV3", "model": "resnet", "resnetBlocks": 1}
    fused, kernels = updated(gang, keras.optimizers.SGD, **options)
    monkeypatch.setattr(batch_normalization, "fuse", lambda _: None)
    by_keras, none = updated(gang, keras.optimizers.SGD, **options)
    assert (kernels > 0, none) == (True, 0)
    for ours, expected in zip(fused, by_keras, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-5)


def normalized(layer: keras.layers.Layer, images: tf.Tensor) -> tuple[list[str], list[np.ndarray]]:
    """Return the operations of a layer in training, and what it gives and keeps."""
    model = keras.Sequential([keras.layers.Input(images.shape[1:]), layer])
    batch_normalization.fuse(model)
    function = tf.function(lambda: model(images, training=True)).get_concrete_function()
    outcome = [function().numpy(), *(variable.numpy() for variable in layer.variables)]
    return [node.op for node in function.graph.as_graph_def().node], outcome


@pytest.mark.parametrize("options", [{}, {"scale": False, "center": False}, {"momentum": 0.5, "epsilon": 0.1}])
def test_statistics_are_those_of_the_batch_to_the_last_example(options: dict[str, Any]) -> None:
    images = np.random.default_rng(0).normal(3.0, 2.0, (3, 2, 1, 2)).astype(np.float32)
    operations, (given, *kept) = normalized(keras.layers.BatchNormalization(**options), tf.constant(images))
    assert "FusedBatchNormV3" in operations
    mean, variance = images.mean(axis=(0, 1, 2)), images.var(axis=(0, 1, 2))
    momentum = options.get("momentum", 0.99)
    expected = (images - mean) / np.sqrt(variance + options.get("epsilon", 1e-3))
    np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(kept[-2], mean * (1 - momentum), rtol=1e-4)
    np.testing.assert_allclose(kept[-1], momentum + variance * (1 - momentum), rtol=1e-4)


class NormalizesInItsWay(keras.layers.BatchNormalization):  # type: ignore[misc]  # Keras ships no types
    """A layer of the user's."""


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (keras.layers.BatchNormalization, (4, 3)),
        (lambda: keras.layers.BatchNormalization(axis=1), (4, 2, 2, 3)),
        (lambda: keras.layers.BatchNormalization(epsilon=1e-6), (4, 2, 2, 3)),
        (lambda: keras.layers.BatchNormalization(trainable=False), (4, 2, 2, 3)),
        (lambda: keras.layers.BatchNormalization(dtype="mixed_float16"), (4, 2, 2, 3)),
        (NormalizesInItsWay, (4, 2, 2, 3)),
    ],
)
def test_a_layer_that_the_kernel_does_not_know_is_left_to_keras(
    layer: Callable[[], keras.layers.Layer], shape: tuple[int, ...]
) -> None:
    operations, _ = normalized(layer(), tf.ones(shape))
    assert "FusedBatchNormV3" not in operations
