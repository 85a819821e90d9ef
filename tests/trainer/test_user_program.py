"""A class of the user's own as `training.program`: trained like a built-in one; its errors are reported."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tfdist.contract import ExitCode

if TYPE_CHECKING:
    from trainer.replicas import Launch

pytestmark = pytest.mark.trainer

LINE = '''
import json
import os

import keras
import tensorflow as tf
import tfdist_trainer

class Config(tfdist_trainer.ProgramConfig):
    slope: float = 3.0
    files: str = "a field, and a method of the trainer"

class Line(tfdist_trainer.Program):
    """Fits y = slope * x - 1 on 64 points; half of them weigh nothing and are of another line."""

    Config = Config

    def model(self):
        return keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1)])

    def dataset(self, split, shard):
        x = tf.reshape(tf.linspace(-1.0, 1.0, 64), [64, 1])
        right = tf.data.Dataset.from_tensor_slices((x, self.config.slope * x - 1.0, tf.ones([64])))
        wrong = tf.data.Dataset.from_tensor_slices((x, x * 100.0, tf.zeros([64])))
        return right.concatenate(wrong).filter(lambda *_: True).shard(shard.count, shard.index)

    def loss(self, labels, predictions):
        return tf.reduce_sum((labels - predictions) ** 2, axis=-1)

    def optimizer(self, scale):
        return keras.optimizers.SGD(0.2 * scale)

class Open(Line):
    Config = tfdist_trainer.Program.Config

    def dataset(self, split, shard):
        assert (self.config.slope, self.config.files, self.config.copy) == (3, "mine", ["too"])
        return super().dataset(split, shard)

class Endless(Line):
    def dataset(self, split, shard):
        return super().dataset(split, shard).repeat()

class Unfinished(tfdist_trainer.Program):
    def model(self):
        return None

class Diverges(Line):
    def loss(self, labels, predictions):
        return super().loss(labels, predictions) / 0.0

class Raises(Line):
    def loss(self, labels, predictions):
        raise ValueError("no such label")

class Weightless(Line):
    def dataset(self, split, shard):
        return super().dataset(split, shard).map(lambda x, y, _: (x, y, 0.0))

class OneBad(Line):
    """Its last example, which the second of two workers has, is no number."""

    def dataset(self, split, shard):
        x = tf.reshape(tf.linspace(-1.0, 1.0, 64), [64, 1])
        y = tf.where(tf.reshape(tf.range(64), [64, 1]) == 63, float("nan"), x)
        return tf.data.Dataset.from_tensor_slices((x, y)).shard(shard.count, shard.index)

class Misfit(Line):
    def dataset(self, split, shard):
        return super().dataset(split, shard).map(lambda x, y, w: (tf.tile(x, [2]), y, w))

class Mean(Line):
    def loss(self, labels, predictions):
        return tf.reduce_mean(super().loss(labels, predictions))

class Apart(Line):
    """Every worker would begin elsewhere, in what is in a checkpoint and in what is not; nothing is learned."""

    def model(self):
        own = 10.0 * json.loads(os.environ["TF_CONFIG"])["task"]["index"] + float(os.environ.get("BEGIN", 0))
        self.offset = tf.Variable([own], dtype=tf.float32)
        start = keras.initializers.Constant(own)
        return keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1, kernel_initializer=start)])

    def loss(self, labels, predictions):
        return super().loss(labels, predictions + self.offset)

    def optimizer(self, scale):
        return keras.optimizers.SGD(0.0)

class Stranger:
    pass
'''


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on `PYTHONPATH`, as the source of a job is."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "mine.py").write_text(LINE)
    (folder / "broken.py").write_text("import nothing_like_it\n")
    (folder / "raises.py").write_text("1 / 0\n")
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    return folder


def job(program: str, config: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"training": {"program": program, "config": config}} | fields


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("name", ["Line", pytest.param("Open", marks=pytest.mark.long)])
def test_a_class_on_the_python_path_is_trained(name: str, launch: "Launch", tmp_path: Path) -> None:
    config: dict[str, Any] = {"epochs": 30, "slope": 3.0, "batchSizePerReplica": 16}
    config |= {"files": "mine"} | ({"copy": ["too"]} if name == "Open" else {})
    directory = {"checkpoint": {"directory": str(tmp_path / "ckpt")}}
    trained = launch(2 if name == "Line" else 1, config={}, job=job(f"mine:{name}", config, **directory))
    assert set(trained.wait()) == {0}, trained.output()
    assert trained.termination().metrics["loss"] < 1e-3
    evaluated = launch(1, config={}, job=job(f"mine:{name}", config, task="Evaluate", **directory))
    assert evaluated.wait() == [0], evaluated.output()
    report = evaluated.termination().evaluation
    assert report is not None
    assert report.examples == 128
    assert report.metrics["loss"] < 1e-3


@pytest.mark.usefixtures("source")
def test_all_members_begin_as_the_chief_does_or_where_the_checkpoint_is(
    launch: "Launch", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = {"checkpoint": {"directory": str(tmp_path / "ckpt")}}
    points = np.linspace(-1.0, 1.0, 64)

    def loss_after(epochs: int) -> float:
        trained = launch(2, config={}, job=job("mine:Apart", {"epochs": epochs}, **directory))
        assert trained.wait() == [0, 0], trained.output()
        return trained.termination().metrics["loss"]

    assert loss_after(1) == pytest.approx(np.mean((3 * points - 1) ** 2)), "the chief's: 0, and no offset"
    monkeypatch.setenv("BEGIN", "1")
    assert loss_after(2) == pytest.approx(np.mean((3 * points - 2) ** 2)), "the checkpoint's 0, the chief's offset of 1"


ERRORS = {
    "absent:Line": "training.program: there is no module 'absent'; it must be in the image or in training.source",
    "mine.sub:Line": "training.program: there is no module 'mine.sub'",
    "mine:Curve": "training.program: module 'mine' has no 'Curve'",
    "mine:Stranger": "training.program: 'mine:Stranger' is no subclass of tfdist_trainer.Program",
    "mine:Unfinished": "training.program: 'mine:Unfinished' lacks dataset(), loss()",
    "broken:Line": "training.program: cannot import 'broken:Line': ModuleNotFoundError: No module named 'nothing",
    "raises:Line": "training.program: cannot import 'raises:Line': ZeroDivisionError: division by zero",
    "mine:Endless": "training.program: dataset() of split train is infinite",
}


@pytest.mark.usefixtures("source")
def test_the_error_of_an_unusable_class_is_reported(launch: "Launch") -> None:
    replicas = {program: launch(1, config={}, job=job(program, {})) for program in ERRORS}
    for program, message in ERRORS.items():
        assert replicas[program].wait() == [ExitCode.CONFIGURATION], replicas[program].output()
        assert replicas[program].termination().message.startswith(message)


@pytest.mark.usefixtures("source")
def test_a_metric_of_the_evaluation_that_the_program_does_not_compute_is_reported_before_training(
    launch: "Launch", tmp_path: Path
) -> None:
    fields = {"checkpoint": {"directory": str(tmp_path / "ckpt")}}
    selects = {"evaluation": {"mode": "Continuous", "metric": "accuracy"}}
    replica = launch(1, config={}, job=job("mine:Line", {}, **fields, **selects))
    assert replica.wait() == [ExitCode.CONFIGURATION], replica.output()
    assert replica.termination().message.startswith("evaluation.metric: the program computes loss, not 'accuracy'")
    assert not (tmp_path / "ckpt").exists(), "it was found before training"


@pytest.mark.usefixtures("source")
def test_a_loss_that_is_no_number_ends_training_or_is_skipped(launch: "Launch", tmp_path: Path) -> None:
    directory = {"checkpoint": {"directory": str(tmp_path / "ckpt")}}
    stopped = launch(1, config={}, job=job("mine:Diverges", {}, **directory))
    skipped = launch(1, config={}, job=job("mine:Diverges", {"nonFinitePolicy": "SkipStep", "steps": 3}))
    of_one = launch(2, config={}, job=job("mine:OneBad", {}))
    assert stopped.wait() == [ExitCode.DATA_MALFORMED], stopped.output()
    assert stopped.termination().reason == "NotFinite"
    assert stopped.termination().message.startswith("step 1: the loss or its gradient is not finite")
    assert not list((tmp_path / "ckpt").glob("checkpoint-*")), "nothing of it may be saved"
    assert skipped.wait() == [0], skipped.output()
    assert "steps-skipped" in skipped.output()
    assert of_one.wait() == [ExitCode.DATA_MALFORMED] * 2, "what one has, all see"
    assert [of_one.termination(rank).reason for rank in range(2)] == ["NotFinite"] * 2


@pytest.mark.usefixtures("source")
def test_an_error_of_the_loss_ends_every_worker_as_an_error_of_the_configuration(launch: "Launch") -> None:
    gang = launch(2, config={}, job=job("mine:Raises", {}))
    assert gang.wait() == [ExitCode.CONFIGURATION] * 2, gang.outputs
    assert gang.termination(1).message == "training.program: loss() raises ValueError: no such label"


@pytest.mark.usefixtures("source")
def test_examples_that_all_weigh_nothing_are_reported(launch: "Launch") -> None:
    replica = launch(1, config={}, job=job("mine:Weightless", {"epochs": 2}))
    assert replica.wait() == [ExitCode.DATA_MALFORMED], replica.output()
    assert replica.termination().message.startswith("epoch 1: all 128 examples have the weight 0, so nothing is tr")


@pytest.mark.usefixtures("source")
def test_shape_errors_are_reported(launch: "Launch") -> None:
    scalar = launch(1, config={}, job=job("mine:Mean", {}))
    misfit = launch(1, config={}, job=job("mine:Misfit", {}))
    assert scalar.wait() == [ExitCode.CONFIGURATION], scalar.output()
    assert scalar.termination().message.startswith("training.program: loss() returns shape ()")
    assert misfit.wait() == [ExitCode.CONFIGURATION], misfit.output()
    message = misfit.termination().message
    assert message.startswith("training.program: dataset() returns features of shape (2,), and model() has an input of")


@pytest.mark.usefixtures("source")
def test_the_fields_of_its_own_configuration_are_checked(launch: "Launch") -> None:
    replica = launch(1, config={}, job=job("mine:Line", {"slop": 3.0}))
    assert replica.wait() == [ExitCode.CONFIGURATION], replica.output()
    assert replica.termination().message.startswith("training.config.slop: unknown field; did you mean slope?")


def test_importing_the_package_is_light() -> None:
    check = "import sys, tfdist_trainer; assert not {'tensorflow', 'keras', 'numpy'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], env=os.environ, check=False)
    assert done.returncode == 0
