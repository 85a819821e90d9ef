# ruff: noqa: PLC0415  TensorFlow takes seconds to import, and the processes under test import it themselves
"""An ensemble is evaluated as the mean of its members' predictions, exactly, by any number of workers."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from trainer.conftest import CLASSES, SHAPE, examples

from tfdist.contract import ExitCode

if TYPE_CHECKING:
    from trainer.replicas import Launch, Replicas

pytestmark = pytest.mark.trainer

Json = dict[str, Any]

PATIENCE_SECONDS = 300.0

LINE = """
import keras
import tensorflow as tf
import tfdist_trainer

class Scaled(keras.Model):
    \"\"\"Has no variable before its first call.\"\"\"

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x)

class Line(tfdist_trainer.Program):
    def model(self):
        return Scaled()

    def dataset(self, split, shard):
        x = tf.reshape(tf.linspace(-1.0, 1.0, getattr(self.config, "points", 45)), [-1, 1])
        return tf.data.Dataset.from_tensor_slices((x, self.config.slope * x)).shard(shard.count, shard.index)

    def loss(self, labels, predictions):
        if tf.reduce_sum(labels) > 1e9:
            labels = tf.zeros_like(labels)
        return tf.reduce_sum((labels - predictions) ** 2, axis=-1)
"""


@pytest.fixture
def images(tmp_path: Path) -> Json:
    """The configuration of a classification of images in two uneven files."""
    from tfdist_trainer.data import tfrecord

    for number, count in enumerate((70, 31)):
        pictures, labels = examples(count, seed=number)
        tfrecord.write(str(tmp_path / f"{number}.tfrecord"), {"image": pictures, "label": labels})
    data = {"train": f"{tmp_path}/*.tfrecord", "eval": f"{tmp_path}/*.tfrecord"}
    sizes = {"imageShape": list(SHAPE), "classes": CLASSES, "batchSizePerReplica": 16}
    return sizes | {"data": data, "model": "mlp", "metrics": ["accuracy", "auc"], "epochs": 2}


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a user's program on `PYTHONPATH`."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "mine.py").write_text(LINE)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    monkeypatch.syspath_prepend(str(folder))
    return "mine:Line"


def train(launch: "Launch", directory: Path, config: Json, program: str = "image_classification", seed: int = 0) -> str:
    """Train one model and return the path of its last checkpoint."""
    job = {
        "training": {"program": program, "config": config},
        "checkpoint": {"directory": str(directory)},
        "runtime": {"seed": seed, "intraOpThreads": 1, "interOpThreads": 1},
    }
    gang = launch(1, config={}, job=job)
    assert gang.wait(PATIENCE_SECONDS) == [0], gang.output()
    return str(max(directory.glob("checkpoint-*")))


def evaluate(
    launch: "Launch",
    size: int,
    directory: Path,
    config: Json,
    members: list[Json],
    program: str = "image_classification",
) -> "Replicas":
    """Start the evaluation of an ensemble by `size` workers, and return them when they have ended."""
    job = {
        "task": "Evaluate",
        "training": {"program": program, "config": config},
        "checkpoint": {"directory": str(directory)},
        "evaluation": {"ensemble": members},
    }
    gang = launch(size, config={}, job=job)
    gang.wait(PATIENCE_SECONDS)
    return gang


def probabilities(config: Json, checkpoint: str, pictures: Any) -> Any:
    """Return those of one model, [examples, classes], as Keras computes them."""
    import keras

    from tfdist_trainer.programs import choose
    from tfdist_trainer.state import restore_model

    model = choose("image_classification", config).create().model()
    restore_model(model, Path(checkpoint))
    return keras.ops.convert_to_numpy(keras.ops.softmax(model(pictures, training=False)))


def test_probabilities_are_averaged_and_each_example_is_counted_once(
    launch: "Launch", tmp_path: Path, images: Json
) -> None:
    # given
    other = {"model": "cnn", "batchNormalization": True}
    members: list[Json] = [
        {"checkpoint": train(launch, tmp_path / "seed-1", images, seed=1)},
        {"checkpoint": train(launch, tmp_path / "seed-2", images, seed=2)},
        {"checkpoint": train(launch, tmp_path / "cnn", images | other, seed=3), "config": other},
    ]
    # when
    gangs = [evaluate(launch, size, tmp_path / "ensemble", images, members) for size in (1, 2)]
    # then
    parts = examples(70, seed=0), examples(31, seed=1)
    pictures, labels = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    mean = np.mean([probabilities(images | m.get("config", {}), m["checkpoint"], pictures) for m in members], axis=0)
    expected = {
        "accuracy": np.mean(np.argmax(mean, axis=1) == labels),
        "loss": -np.mean(np.log(mean[np.arange(len(labels)), labels])),
    }
    for gang in gangs:
        report = gang.termination().evaluation
        assert report is not None, gang.outputs
        assert (report.examples, report.checkpoint) == (101, None)
        assert {name: report.metrics[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    assert len(list((tmp_path / "ensemble/evaluation").glob("*.json"))) == 1


@pytest.mark.long
def test_numbers_of_a_users_program_are_averaged(launch: "Launch", tmp_path: Path, line: str) -> None:
    # given
    config = {"slope": 2.0, "epochs": 3, "learningRate": 0.1}
    trained = [train(launch, tmp_path / str(seed), config, line, seed) for seed in (1, 2)]
    # when
    gang = evaluate(launch, 2, tmp_path / "ensemble", config, [{"checkpoint": each} for each in trained], line)
    # then
    import tensorflow as tf

    weights = [
        {name: tf.train.load_checkpoint(f"{each}/variables").get_tensor(name) for name in _weights(each)}
        for each in trained
    ]
    slope = np.mean([next(v for v in each.values() if v.ndim == 2) for each in weights])
    offset = np.mean([next(v for v in each.values() if v.ndim == 1) for each in weights])
    x = np.linspace(-1, 1, 45)
    report = gang.termination().evaluation
    assert report is not None, gang.outputs
    assert report.metrics["loss"] == pytest.approx(np.mean((2 * x - slope * x - offset) ** 2), rel=1e-4)


def _weights(checkpoint: str) -> list[str]:
    import tensorflow as tf

    names = tf.train.load_checkpoint(f"{checkpoint}/variables").get_variable_to_shape_map()
    return [name for name in names if name.startswith("model/") and "dense" in name]


@pytest.mark.parametrize(
    ("members", "code", "message"),
    [
        ([{"checkpoint": "nothing"}], ExitCode.DATA_MISSING, "evaluation.ensemble[0].checkpoint: {path}/nothing does"),
        ([{"checkpoint": "."}], ExitCode.STORAGE, "evaluation.ensemble[0].checkpoint: {path}"),
        ([{"checkpoint": ".", "config": {"model": 3}}], ExitCode.CONFIGURATION, "evaluation.ensemble[0].config: "),
    ],
)  # fmt: skip
def test_a_member_that_cannot_be_evaluated_is_named(
    launch: "Launch", tmp_path: Path, images: Json, members: list[Json], code: ExitCode, message: str
) -> None:
    gang = evaluate(launch, 1, tmp_path, images, members)

    text = message.format(path=tmp_path)
    assert gang.wait() == [code], gang.outputs
    assert gang.termination().message.startswith(text)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"slope": 3.0}, "the members read different labels for the same example"),
        ({"points": 44}, "the members read different examples, 45 and 44"),
    ],
)
def test_members_that_read_other_examples_are_rejected(
    launch: "Launch", tmp_path: Path, line: str, other: Json, message: str
) -> None:
    config = {"slope": 2.0, "epochs": 1}
    trained = train(launch, tmp_path / "one", config, line)

    members: list[Json] = [{"checkpoint": trained}, {"checkpoint": trained, "config": other}]
    gang = evaluate(launch, 1, tmp_path / "ensemble", config, members, line)

    assert gang.wait() == [ExitCode.CONFIGURATION], gang.outputs
    assert message in gang.termination().message
