"""Training is the same computation however many replicas take part: it is held against NumPy, step by step."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfdist_trainer.checkpoint import read_record
from tfdist_trainer.data import npz
from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.data.pipeline import EpochRange, steps_needed, stream
from tfdist_trainer.metrics.collection import MetricCollection
from tfdist_trainer.programs import choose

if TYPE_CHECKING:
    from trainer.replicas import Launch, Replicas

pytestmark = pytest.mark.trainer

Array = npt.NDArray[np.float64]

SECONDS: Final = 240.0
EXAMPLES: Final = 37
BATCH: Final = 12
"""Of all replicas; it can be divided by 1, 2 and 3, and the examples by nothing."""
EPOCHS: Final = 2
STEPS: Final = 4
"""Of an epoch."""
RATE: Final = 0.05


class Line:
    """Weighted examples, and the model that is trained on them: a line, in float64."""

    def __init__(self, path: Path) -> None:
        random = np.random.default_rng(8)
        self.x = random.normal(0, 1, (EXAMPLES, 2))
        self.y = self.x @ [3.0, -2.0] + random.normal(0, 1, EXAMPLES) + 5
        self.weight = random.choice([0.0, 0.5, 2.0], EXAMPLES)
        columns = {"x": self.x.astype(np.float32), "y": self.y.astype(np.float32)}
        npz.save(str(path), **columns, weight=self.weight.astype(np.float32))

    def gradient(self, batch: slice, kernel: Array, bias: Array) -> Array:
        """Return that of the mean of weighted squared errors: of the kernel, and of the bias behind it."""
        error = self.x[batch] @ kernel[:, 0] + bias - self.y[batch]
        factor = 2 * self.weight[batch] * error / self.weight[batch].sum()
        return np.append(factor @ self.x[batch], factor.sum())

    def squared_errors(self, batch: slice, kernel: Array, bias: Array) -> float:
        """Return their weighted sum."""
        error = self.x[batch] @ kernel[:, 0] + bias - self.y[batch]
        return float(self.weight[batch] @ error**2)


def batch_of(step: int) -> slice:
    """Return the examples of the step with this number; the first is 1."""
    first = (step - 1) % STEPS * BATCH
    return slice(first, min(first + BATCH, EXAMPLES))


def variables_at(directory: Path, step: int) -> tuple[Array, Array]:
    """Return kernel and bias in a checkpoint."""
    reader = tf.train.load_checkpoint(str(directory / f"checkpoint-{step:09d}" / "variables"))
    names = [name for name in reader.get_variable_to_shape_map() if "_trainable_variables/" in name]
    by_rank = {value.ndim: value.astype(np.float64) for value in map(reader.get_tensor, names)}
    return by_rank[2], by_rank[1]


def sums_at(directory: Path, step: int) -> list[float]:
    """Return the sums of loss and metrics since the start of the epoch."""
    return list(read_record(directory / f"checkpoint-{step:09d}").cursor.metric_sums)


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(tmp_path / "train.npz")


def start(launch: "Launch", folder: Path, name: str, workers: int, bounds: dict[str, float]) -> "Replicas":
    config = {
        "data": {"train": f"{folder}/train.npz", "weight": "weight"},
        "numeric": {"x": 2},
        "label": "y",
        "normalize": "None",
        "hiddenUnits": [],
        "metrics": ["mean_absolute_error"],
        "epochs": EPOCHS,
        "globalBatchSize": BATCH,
        "shuffleBuffer": 0,
        "learningRate": RATE,
        "optimizer": {"name": "sgd"} | bounds,
    }
    settings: dict[str, Any] = {"training": {"program": "tabular", "config": config}}
    settings |= {"checkpoint": {"directory": str(folder / name), "everySteps": 1, "keep": 100}}
    environs = {0: {"TFDIST_LOGICAL_CPUS": "2"}} if name == "Mirrored" else None
    strategy = {"strategy": "Mirrored"} if name == "Mirrored" else {}
    return launch(workers, config={}, job=settings | strategy, environs=environs)


def follows_numpy(line: Line, directory: Path, bounded: Callable[[Array], Array]) -> list[Array]:
    """Check each step from its checkpoint to the next, and return the gradients that were `bounded`."""
    gradients = []
    for step in range(1, EPOCHS * STEPS):
        (kernel, bias), batch = variables_at(directory, step), batch_of(step + 1)
        gradients.append(line.gradient(batch, kernel, bias))
        expected = np.append(kernel, bias) - RATE * bounded(gradients[-1])
        np.testing.assert_allclose(np.append(*variables_at(directory, step + 1)), expected, rtol=1e-5, atol=1e-6)
        if (step + 1) % STEPS and step % STEPS:
            # An example counts, then the loss and its weight, then the metric and its weight.
            _, loss, weight, *_ = np.subtract(sums_at(directory, step + 1), sums_at(directory, step))
            assert loss == pytest.approx(line.squared_errors(batch, kernel, bias), rel=1e-4)
            assert weight == pytest.approx(line.weight[batch].sum())
    return gradients


def test_each_step_is_that_of_one_process_and_of_numpy_with_the_norm_of_the_whole_batch_clipped(
    launch: "Launch", line: Line, tmp_path: Path
) -> None:
    bound = 5.0
    ways = {"one": 1, "two": 2, "three": 3, "Mirrored": 1}
    gangs = {name: start(launch, tmp_path, name, size, {"globalClipNorm": bound}) for name, size in ways.items()}
    for name, gang in gangs.items():
        assert set(gang.wait(SECONDS)) == {0}, f"{name}: {gang.outputs}"
    assert "batchSize=12" in gangs["Mirrored"].output()

    for step in range(1, EPOCHS * STEPS + 1):
        expected, sums = np.append(*variables_at(tmp_path / "one", step)), sums_at(tmp_path / "one", step)
        for name in ways:
            found = np.append(*variables_at(tmp_path / name, step))
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=f"{name}, step {step}")
            assert sums_at(tmp_path / name, step) == pytest.approx(sums, rel=1e-5), f"{name}, step {step}"
    for gang in gangs.values():
        assert gang.termination().metrics == pytest.approx(gangs["one"].termination().metrics, rel=1e-5)

    gradients = follows_numpy(line, tmp_path / "one", lambda g: g * min(1.0, bound / float(np.linalg.norm(g))))
    norms = [float(np.linalg.norm(gradient)) for gradient in gradients]
    assert min(norms) < bound < max(norms), "some are clipped, and others are not"


def test_each_element_of_the_whole_gradient_is_clipped(launch: "Launch", line: Line, tmp_path: Path) -> None:
    bound = 2.0
    gang = start(launch, tmp_path, "two", 2, {"clipValue": bound})
    assert gang.wait(SECONDS) == [0, 0], gang.outputs
    gradients = np.abs(follows_numpy(line, tmp_path / "two", lambda g: np.clip(g, -bound, bound)))
    assert gradients.min() < bound < gradients.max(), "some are clipped, and others are not"


def test_statistics_of_batch_normalization_are_equal_on_all_workers_at_each_checkpoint(
    launch: "Launch", config: dict[str, Any], data: Path, tmp_path: Path
) -> None:
    # By file: one worker has all examples of a class, and one has none.
    own = {"data": {"train": f"{data}/eval-*.npz"}, "batchNormalization": True, "epochs": 2, "learningRate": 0.1}
    settings: dict[str, Any] = {"training": {"program": "support.dumping_program:Dumping", "config": config | own}}
    settings |= {"checkpoint": {"directory": str(tmp_path / "ckpt"), "everySteps": 4}}
    environs = {rank: {"DUMP_FOLDER": str(tmp_path)} for rank in range(3)}
    gang = launch(3, config={}, job=settings, environs=environs)
    assert gang.wait(SECONDS) == [0, 0, 0], gang.outputs
    steps = sorted({int(path.name.partition("-")[0]) for path in tmp_path.glob("*-0.npz")})
    assert len(steps) > 2
    means = []
    for step in steps:
        kept = [np.load(tmp_path / f"{step}-{rank}.npz") for rank in range(3)]
        statistics = [name for name in kept[0] if "moving" in name]
        assert len(statistics) >= 2
        for name in kept[0]:
            for other in kept[1:]:
                np.testing.assert_array_equal(other[name], kept[0][name], err_msg=f"{name} at step {step}")
        means.append(kept[0][statistics[0]])
    assert not np.allclose(means[0], means[-1]), "they move, else the test shows nothing"


@settings(max_examples=8)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any),
    pipelines=st.integers(1, 4),
    batch=st.integers(1, 5),
    seed=st.integers(0, 2**31 - 1),
)
def test_streams_of_any_sizes_and_shares_add_up_to_the_metrics_of_the_whole(
    sizes: list[int], pipelines: int, batch: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("sizes")
    random = np.random.default_rng(seed)
    x, y = random.normal(0, 1, (2, sum(sizes))).astype(np.float32)
    weight = random.choice([0.0, 0.5, 2.0], sum(sizes)).astype(np.float32)
    for number, own in enumerate(np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])):
        npz.save(str(folder / f"{number}.npz"), x=x[own], y=y[own], weight=weight[own])
    data = {"train": f"{folder}/*.npz", "weight": "weight"}
    metrics = ["mean_squared_error", "mean_absolute_error", "r2"]
    config = {"data": data, "numeric": ["x"], "label": "y", "metrics": metrics}
    program = choose("tabular", config).create()
    sums = MetricCollection(program.metrics())
    parts = [program.examples(Split.TRAIN, Shard(index, pipelines)) for index in range(pipelines)]
    steps = steps_needed([part.count for part in parts], batch, 1)

    total = sums.zeros()
    for part in parts:
        for item in stream(part, EpochRange(steps, range(1)), batch_size=batch, seed=seed).take(steps):
            predictions = item.features["numeric"][:, 0]
            total += sums.sums(item.labels, predictions, item.weights, item.valid_mask).numpy()
    whole = sums.sums(tf.constant(y), tf.constant(x), tf.constant(weight), tf.ones([sum(sizes)], tf.bool)).numpy()
    assert sums.examples(total) == sum(sizes)
    assert sums.results(total) == pytest.approx(sums.results(whole), rel=1e-9, nan_ok=True)
