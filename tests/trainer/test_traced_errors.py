"""Errors of what a step traces of a user's program: one line that names the part, and no restart."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist.contract import ExitCode, ReplicaJob
from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.environment import GangMember
from tfdist_trainer.errors import ConfigurationError, classify
from tfdist_trainer.keras_compat import keras
from tfdist_trainer.metrics.additive import WeightedMean
from tfdist_trainer.programs import choose
from tfdist_trainer.programs.base import Program
from tfdist_trainer.programs.ensemble import Ensemble
from tfdist_trainer.programs.models import new_model
from tfdist_trainer.step import EvaluateStep, StepOptions, TrainStep
from tfdist_trainer.strategies.replica_group import ReplicaGroup

pytestmark = pytest.mark.trainer

PerExample = Callable[[tf.Tensor, tf.Tensor], Any]
SIZE = 4


class OfTheUserError(Exception):
    """AutoGraph cannot construct exceptions of such types."""


def differences(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """Return a loss that needs AutoGraph."""
    difference = labels - predictions
    if tf.reduce_sum(difference) < 0:
        difference = -difference
    return tf.reduce_sum(difference, axis=-1)


def raising(error: Exception) -> PerExample:
    def function(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        if tf.reduce_sum(labels) > 0:
            raise error
        return predictions

    return function


def always(_training: bool) -> bool:
    return True


class Neuron(keras.Model):  # type: ignore[misc]
    """One neuron whose call does what a test sets."""

    def __init__(self, before: Callable[[bool], bool]) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.before = before

    def call(self, features: tf.Tensor, *, training: bool = False) -> Any:
        """Return the sum, or nothing."""
        result = self.dense(features)
        return result if self.before(training) else None


class StubProgram(Program):
    """A user's program of the functions that a test sets."""

    stub_loss: PerExample = staticmethod(differences)
    stub_metrics: Callable[[], Any] = tuple
    before: Callable[[bool], bool] = staticmethod(always)

    def model(self) -> Any:
        """Return one neuron."""
        return Neuron(self.before)

    def dataset(self, split: Split, shard: Shard) -> tf.data.Dataset:  # noqa: ARG002  as the base class
        """Return points."""
        return tf.data.Dataset.from_tensors((tf.ones([2]), tf.ones([1])))

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> Any:
        """Return what the test has set."""
        return self.stub_loss(labels, predictions)

    def metrics(self) -> Any:
        """Return what the test has set."""
        return StubProgram.stub_metrics()


class WithoutMean(StubProgram):
    """One whose predictions cannot be averaged."""

    def ensemble(self, predictions: Any) -> Any:  # noqa: ARG002  as the base class
        """Fail."""
        raise TypeError("bad")


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Program]:
    def make(
        loss: PerExample = differences, metrics: Callable[[], Any] = tuple, before: Callable[[bool], bool] = always
    ) -> Program:
        monkeypatch.setattr(StubProgram, "stub_loss", staticmethod(loss))
        monkeypatch.setattr(StubProgram, "stub_metrics", staticmethod(metrics))
        monkeypatch.setattr(StubProgram, "before", staticmethod(before))
        return choose(f"{__name__}:StubProgram", {}).create()

    return make


def gang() -> ReplicaGroup:
    job = ReplicaJob(
        name="t", namespace="d", uid="u", strategy="OneDevice", role="worker", index=0, replicas={"worker": 1}
    )
    return ReplicaGroup(GangMember(job=job, rank=0, size=1, addresses=()), tf.distribute.get_strategy())


def batches() -> Any:
    ones = np.ones(SIZE, np.float32)
    batch = np.ones((SIZE, 2), np.float32), np.ones((SIZE, 1), np.float32), ones, ones > 0
    return iter(tf.data.Dataset.from_tensors(batch).repeat())


def train(program: Program) -> None:
    model, optimizer = new_model(program, Split.TRAIN, Shard(0, 1)), keras.optimizers.SGD(0.0)
    optimizer.build(model.trainable_variables)
    TrainStep(gang(), program, model, optimizer, StepOptions()).run(batches(), 2)


def evaluate(program: Program) -> None:
    EvaluateStep(gang(), program, new_model(program, Split.EVAL, Shard(0, 1))).run(batches(), tf.constant(2))


def called(condition: Callable[[bool], bool]) -> Callable[[bool], bool]:
    """Return what a model does before its result: fail if it is `wanted`."""

    def before(training: bool) -> bool:
        if condition(training):
            raise ValueError("no such layer")
        return True

    return before


def of_metric(function: PerExample) -> dict[str, Any]:
    return {"metrics": lambda: [WeightedMean("mine", function)]}


CALL = r"call\(\) of the model"
CAUSE = r"raises ValueError: Exception encountered when calling Neuron.call\(\). no such layer$"
BY_PART: dict[str, tuple[dict[str, Any], str]] = {
    "loss": ({"loss": raising(ValueError("bad\nloss"))}, r"loss\(\) raises ValueError: bad loss$"),
    "loss, of an own type": ({"loss": raising(OfTheUserError("bad"))}, r"loss\(\) raises OfTheUserError: bad$"),
    "loss, of a key": ({"loss": raising(KeyError("price"))}, r"loss\(\) raises KeyError: 'price'$"),
    "loss, of shapes": (
        {"loss": tf.matmul},
        r"loss\(\) raises \w+Error: .*Dimensions must be equal",
    ),
    "metric": (of_metric(raising(ZeroDivisionError("bad"))), "metric 'mine' raises ZeroDivisionError: bad$"),
    "metric without a result": (of_metric(lambda *_: None), "metric 'mine' returns a NoneType; return one value for"),
    "metric of one number": (of_metric(lambda *_: tf.constant(1.0)), r"metric 'mine' returns shape \(\); return one"),
    "metric of Keras": (
        {"metrics": lambda: [keras.metrics.SparseTopKCategoricalAccuracy(k="two", name="mine")]},
        "metric 'mine' raises TypeError: ",
    ),
}


@pytest.mark.parametrize("step", [train, evaluate])
@pytest.mark.parametrize(("functions", "message"), BY_PART.values(), ids=BY_PART)
def test_an_error_in_a_step_is_reported_with_the_part_of_the_program(
    program: Callable[..., Program], step: Callable[[Program], None], functions: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^training.program: {message}") as caught:
        step(program(**functions))
    assert classify(caught.value).exit_code is ExitCode.CONFIGURATION


OF_TRAINING: dict[str, tuple[dict[str, Any], str]] = {
    "model": ({"before": called(lambda _: True)}, f"{CALL} {CAUSE}"),
    "model in training": ({"before": called(lambda training: training)}, f"{CALL} with training=True {CAUSE}"),
    "model without a result": ({"before": lambda _: False}, f"{CALL} returns a NoneType; return the predictions$"),
    "no loss": ({"loss": lambda *_: None}, r"loss\(\) returns a NoneType; return one value for each example"),
    "loss by name": ({"loss": lambda *_: {"loss": 1.0}}, r"loss\(\) returns a dict; return one value for"),
    "one loss": ({"loss": lambda *_: tf.constant(1.0)}, r"loss\(\) returns shape \(\), expected \(4,\)"),
}


@pytest.mark.parametrize(("functions", "message"), OF_TRAINING.values(), ids=OF_TRAINING)
def test_an_error_of_training_is_reported_with_the_part_of_the_program(
    program: Callable[..., Program], functions: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^training.program: {message}"):
        train(program(**functions))


def test_a_model_that_fails_only_in_training_is_evaluated(program: Callable[..., Program]) -> None:
    evaluate(program(before=called(lambda training: training)))


def test_a_loss_that_branches_on_tensors_and_is_a_metric_too_is_traced(program: Callable[..., Program]) -> None:
    for step in (train, evaluate):
        step(program(**of_metric(differences)))


def test_an_ensemble_reports_the_errors_of_its_members(program: Callable[..., Program]) -> None:
    with pytest.raises(ConfigurationError, match=r"^training.program: loss\(\) raises ValueError: bad$"):
        evaluate_ensemble(Ensemble([program(loss=raising(ValueError("bad")))]))
    with pytest.raises(ConfigurationError, match=r"^training.program: ensemble\(\) raises TypeError: bad$"):
        evaluate_ensemble(Ensemble([WithoutMean(program().config)]))


def evaluate_ensemble(ensemble: Ensemble) -> None:
    ones = np.ones(SIZE, np.float32)
    batch = (np.ones((SIZE, 2), np.float32),), np.ones((SIZE, 1), np.float32), ones, ones > 0
    model = ensemble.model()
    EvaluateStep(gang(), ensemble, model).run(iter(tf.data.Dataset.from_tensors(batch)), tf.constant(1))


@pytest.mark.parametrize(
    "error",
    [ConnectionError("reset"), MemoryError("none"), tf.errors.ResourceExhaustedError(None, None, "no memory")],
    ids=lambda error: type(error).__name__,
)
def test_errors_that_a_restart_may_cure_stay_what_they_are(program: Callable[..., Program], error: Exception) -> None:
    with pytest.raises(type(error)):
        train(program(loss=raising(error)))
