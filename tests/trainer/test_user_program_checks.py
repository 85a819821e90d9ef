"""Errors of the methods of a user's program: one line that names the method, and no restart."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist.contract import ExitCode
from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.data.pipeline import EpochRange, stream
from tfdist_trainer.data.tfrecord import example
from tfdist_trainer.errors import ConfigurationError, classify
from tfdist_trainer.programs import choose
from tfdist_trainer.programs.base import Program
from tfdist_trainer.programs.from_files import explain_data_errors

pytestmark = pytest.mark.trainer

ALL = Shard(0, 1)
SPEC = (tf.TensorSpec([1]), tf.TensorSpec([1]))


def line() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((tf.zeros([8, 1]), tf.zeros([8, 1])))


@dataclass
class Results:
    """What the methods of `StubProgram` return."""

    dataset: Callable[[], Any] = line
    model: Callable[[], Any] = lambda: keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1)])
    optimizer: Callable[[], Any] = keras.optimizers.SGD
    metrics: Callable[[], Any] = tuple


class StubProgram(Program):
    """A user's program of the results that a test sets."""

    results: Results

    def dataset(self, split: Split, shard: Shard) -> Any:  # noqa: ARG002  as the base class
        return self.results.dataset()

    def model(self) -> Any:
        return self.results.model()

    def optimizer(self, scale: float) -> Any:  # noqa: ARG002
        return self.results.optimizer()

    def metrics(self) -> Any:
        return self.results.metrics()

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean((labels - predictions) ** 2, axis=-1)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Program]:
    def make(**results: Callable[[], Any]) -> Program:
        monkeypatch.setattr(StubProgram, "results", Results(**results), raising=False)
        return choose(f"{__name__}:StubProgram", {}).create()

    return make


def use(program: Program) -> None:
    """Call the methods in the trainer's order, and read all examples as a step does."""
    with explain_data_errors(program):
        examples = program.examples(Split.TRAIN, ALL)
        program.metrics()
        program.model()
        program.optimizer(1.0)
        batches = iter(stream(examples, EpochRange(batches=2, epochs=range(1)), batch_size=4, seed=None))
        tf.function(lambda: [next(batches), next(batches)])()


def test_a_valid_program_passes(program: Callable[..., Program]) -> None:
    use(program())


def test_features_of_any_length_in_records_become_examples_of_one_shape(
    program: Callable[..., Program], tmp_path: Path
) -> None:
    path = str(tmp_path / "x.tfrecord")
    lengths = [0, 1, 3, 5, 2, 0, 4, 3]
    with tf.io.TFRecordWriter(path) as writer:
        for length in lengths:
            writer.write(example({"items": np.arange(1, length + 1), "label": float(length)}))

    def dataset() -> tf.data.Dataset:
        features = {"items": tf.io.RaggedFeature(tf.int64), "label": tf.io.FixedLenFeature([1], tf.float32)}

        def padded(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            columns = tf.io.parse_example(records, features)
            return columns["items"].to_tensor(shape=[None, 3]), columns["label"]

        return tf.data.TFRecordDataset(path).batch(3).map(padded).unbatch()

    use(program(dataset=dataset, model=lambda: keras.Sequential([keras.layers.Input([3]), keras.layers.Dense(1)])))
    examples = [items.tolist() for items, _ in dataset().as_numpy_iterator()]
    assert examples == [[*range(1, min(n, 3) + 1), *[0] * (3 - n)] for n in lengths]


def failing(error: Exception, *, known_length: bool = False) -> Callable[[], tf.data.Dataset]:
    """Return the data set of a generator that raises `error` after four examples."""

    def examples() -> Iterator[Any]:
        yield from [([1.0], [1.0])] * 4
        raise error

    def dataset() -> tf.data.Dataset:
        result = tf.data.Dataset.from_generator(examples, output_signature=SPEC)
        return result.apply(tf.data.experimental.assert_cardinality(8)) if known_length else result

    return dataset


def sizes() -> tf.data.Dataset:
    return tf.data.Dataset.range(8).map(lambda n: (tf.zeros([n]), tf.zeros([1])))


def raises(error: Exception) -> Callable[[], Any]:
    def method() -> Any:
        raise error

    return method


def ragged() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors((tf.ragged.constant([[1.0], [1.0, 2.0]]), 0.0))


WRONG: dict[str, tuple[dict[str, Callable[[], Any]], str]] = {
    "batched": (
        {"dataset": lambda: line().batch(4)},
        r"dataset\(\) returns examples of shape \(None, 1\), of which every size must be known; .*without batch\(\),",
    ),
    "batched, of one size": (
        {"dataset": lambda: line().batch(4, drop_remainder=True)},
        r"dataset\(\) returns features of shape \(4, 1\), and .*without batch\(\)$",
    ),
    "batched, with weights": (
        {"dataset": lambda: line().map(lambda x, y: (x, y, 1.0)).batch(4, drop_remainder=True)},
        r"dataset\(\) returns weights of shape \(4,\); return one example at a time",
    ),
    "other features": (
        {"dataset": lambda: line().map(lambda x, y: (tf.tile(x, [2]), y))},
        r"dataset\(\) returns features of shape \(2,\), and model\(\) .* \(1,\) .*; make the shapes equal$",
    ),
    "ragged": (
        {"dataset": ragged},
        r"dataset\(\) returns examples with a RaggedTensor; return dense tensors of one shape",
    ),
    "no label": ({"dataset": lambda: line().map(lambda x, _: {"x": x})}, r"dataset\(\) returns examples that are a"),
    "no data set": ({"dataset": lambda: [1, 2]}, r"dataset\(\) returns a list; return a tf.data.Dataset"),
    "generator": ({"dataset": failing(KeyError("price"))}, r"dataset\(\) raises KeyError: 'price'$"),
    "counted generator": (
        {"dataset": failing(ValueError("bad\nrow"), known_length=True)},
        r"dataset\(\) raises ValueError: bad row$",
    ),
    "sizes": ({"dataset": sizes}, r"dataset\(\) returns examples of shape \(None,\), .* pad or truncate"),
    "raises": ({"model": raises(NameError("no x"))}, r"model\(\) raises NameError: no x$"),
    "no model": ({"model": lambda: None}, r"model\(\) returns a NoneType; return a Keras model"),
    "name of an optimizer": (
        {"optimizer": lambda: "adam"},
        r"optimizer\(\) returns 'adam', a str; return an optimizer, such as keras.optimizers.Adam",
    ),
    "name of a metric": ({"metrics": lambda: ["mse"]}, r"metrics\(\) returns a list with 'mse', a str; return metrics"),
    "one metric": ({"metrics": keras.metrics.Mean}, r"metrics\(\) returns a Mean; return a list of metrics"),
}


@pytest.mark.parametrize(("results", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_result_or_an_error_is_reported_with_the_method(
    program: Callable[..., Program], results: dict[str, Callable[[], Any]], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^training.program: {message}") as caught:
        use(program(**results))
    assert classify(caught.value).exit_code is ExitCode.CONFIGURATION


def test_errors_that_a_restart_may_cure_stay_what_they_are(program: Callable[..., Program], tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        use(program(model=raises(ConnectionError("reset"))))
    with pytest.raises(tf.errors.UnknownError, match="ConnectionError"):
        use(program(dataset=failing(ConnectionError("reset"))))
    with pytest.raises(tf.errors.NotFoundError):
        use(program(dataset=lambda: tf.data.TFRecordDataset(str(tmp_path / "no")).map(lambda r: (r, r))))
