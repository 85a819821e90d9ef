"""A program's model and optimizer do what they do in `fit`, or the job ends with what to write instead."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tfdist.contract import ExitCode

if TYPE_CHECKING:
    from trainer.replicas import Launch

pytestmark = pytest.mark.trainer

PROGRAMS = '''
import keras
import tensorflow as tf
import tfdist_trainer

class Line(tfdist_trainer.Program):
    def model(self):
        return keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1)])

    def dataset(self, split, shard):
        x = tf.reshape(tf.linspace(-1.0, 1.0, 64), [64, 1])
        return tf.data.Dataset.from_tensor_slices((x, 3.0 * x - 1.0)).shard(shard.count, shard.index)

    def loss(self, labels, predictions):
        return tf.reduce_sum((labels - predictions) ** 2, axis=-1)

class Averaged(Line):
    def optimizer(self, scale):
        return keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.9)

@keras.saving.register_keras_serializable()
class OnCall(keras.Model):
    """Has variables after its first call."""

    def __init__(self, **options):
        super().__init__(**options)
        self.dense = keras.layers.Dense(1)

    def call(self, inputs):
        return self.dense(inputs["x"])

class Unbuilt(Line):
    def model(self):
        return OnCall()

    def dataset(self, split, shard):
        return super().dataset(split, shard).map(lambda x, y: ({"x": x}, y))

    def optimizer(self, scale):
        return keras.optimizers.SGD(0.2)

class Nothing(Line):
    def model(self):
        return keras.Sequential([keras.layers.Input([1]), keras.layers.ReLU()])

class Frozen(Line):
    def model(self):
        model = super().model()
        model.trainable = False
        return model

class Stepping(keras.Model):
    def train_step(self, data):
        return {"loss": tf.constant(0.0)}

class OwnStep(Line):
    def model(self):
        inputs = keras.layers.Input([1])
        return Stepping(inputs, keras.layers.Dense(1)(inputs))
'''


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs on `PYTHONPATH`, as the source of a job is."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "as_fit.py").write_text(PROGRAMS)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)


def job(program: str, directory: Path, config: dict[str, Any], **fields: Any) -> dict[str, Any]:
    training = {"program": f"as_fit:{program}", "config": {"batchSizePerReplica": 16} | config}
    checkpoint = {"directory": str(directory), "keep": 9, "everySteps": 3}
    return {"training": training, "checkpoint": checkpoint} | fields


def weights_and_averages(checkpoint: Path) -> tuple[list[list[float]], list[list[float]]]:
    """Return the weights in a checkpoint, and their moving averages."""
    import tensorflow as tf  # noqa: PLC0415

    reader = tf.train.load_checkpoint(str(checkpoint / "variables"))
    names = sorted(reader.get_variable_to_shape_map())
    # Variables 0 and 1 of the optimizer are iterations and learning rate.
    weights, averages = (
        [reader.get_tensor(name).ravel().tolist() for name in names if name.startswith(f"optimizer/{part}/")]
        for part in ("_trainable_variables", "_variables")
    )
    assert len(weights) == len(averages) == 2
    return weights, averages


@pytest.mark.parametrize(("workers", "steps"), [(2, 5), (1, 6)])
def test_the_last_checkpoint_has_moving_averages_as_weights(
    workers: int, steps: int, launch: "Launch", tmp_path: Path
) -> None:
    directory = tmp_path / "ckpt"
    trained = launch(workers, config={}, job=job("Averaged", directory, {"steps": steps}))
    assert set(trained.wait()) == {0}, trained.outputs
    weights, averages = weights_and_averages(directory / f"checkpoint-{steps:09d}")
    assert weights == averages
    weights, averages = weights_and_averages(directory / "checkpoint-000000003")
    assert weights != averages, "training goes on with the weights themselves"


@pytest.mark.long
def test_a_model_that_is_not_built_is_trained_evaluated_and_exported(launch: "Launch", tmp_path: Path) -> None:
    export = {"directory": str(tmp_path / "export"), "formats": ["Keras"], "which": ["Final"]}
    given = job("Unbuilt", tmp_path / "ckpt", {"epochs": 30}, export=export)
    trained = launch(2, config={}, job=given)
    assert set(trained.wait()) == {0}, trained.outputs
    assert trained.termination().metrics["loss"] < 1e-3
    assert (tmp_path / "export/final/model.keras").is_file()
    evaluated = launch(1, config={}, job=given | {"task": "Evaluate"})
    assert evaluated.wait() == [0], evaluated.output()
    report = evaluated.termination().evaluation
    assert report is not None
    assert report.metrics["loss"] < 1e-3


ERRORS = {
    "Nothing": "training.program: model() has no trainable variable, so there is nothing to train; return a model",
    "Frozen": "training.program: model() has no trainable variable",
    "OwnStep": "training.program: the model 'Stepping' overrides train_step(), which only fit calls; train it by a "
    "script with fit (training.script, docs/keras.md)",
}


def test_a_model_that_the_trainer_would_not_train_is_reported(launch: "Launch", tmp_path: Path) -> None:
    replicas = {name: launch(1, config={}, job=job(name, tmp_path / name, {})) for name in ERRORS}
    for name, message in ERRORS.items():
        assert replicas[name].wait() == [ExitCode.CONFIGURATION], replicas[name].output()
        assert replicas[name].termination().message.startswith(message)
