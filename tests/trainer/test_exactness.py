# ruff: noqa: PLC0415  TensorFlow takes seconds to import, and the processes under test import it themselves
"""Every metric of every program is that of one process, for any number of processes and distribution of the data."""

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from trainer import exported

from tfdist.contract import ExitCode
from tfdist.contract_reports import EvaluationReport

if TYPE_CHECKING:
    from trainer.replicas import Launch

pytestmark = pytest.mark.trainer

PATIENCE_SECONDS = 400.0
COLORS = ["red", "green", "blue", "grey"]
WORDS = ["bad", "awful", "poor", "good", "great", "fine"]


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def flowers(folder: Path) -> dict[str, Any]:
    """Four kinds, distinguished by two numbers and a color; examples have weights, and some weigh nothing.

    There are three files to evaluate, for three workers: one has a kind for itself, one has nothing.
    """
    random = np.random.default_rng(5)

    def rows(count: int, kinds: Sequence[int]) -> list[list[Any]]:
        chosen = random.choice(kinds, count)
        return [
            [*np.round(random.normal(kind, 0.9, 2), 4), COLORS[(kind + random.integers(2)) % 4], kind, weight]
            for kind, weight in zip(chosen, random.choice([0, 0.5, 2], count), strict=True)
        ]

    header = ["length", "width", "color", "kind", "weight"]
    write_csv(folder / "train-0.csv", header, rows(103, range(4)))
    write_csv(folder / "train-1.csv", header, rows(0, range(4)))
    write_csv(folder / "train-2.csv", header, rows(31, [1]))
    for number, (count, kinds) in enumerate([(37, [0, 1, 2]), (0, [0]), (17, [3])]):
        write_csv(folder / f"eval-{number}.csv", header, rows(count, kinds))
    return {
        "data": {"weight": "weight"},
        "label": "kind",
        "classes": 4,
        "numeric": ["length", "width"],
        "categorical": {"color": None},
        "metrics": [
            *("accuracy", "top_2", "precision", "recall", "f1", "auc", "confusion_matrix"),
            "keras.SparseCategoricalCrossentropy",
        ],
    }


def houses(folder: Path) -> dict[str, Any]:
    """A price of two numbers, far from 0; in TFRecord files."""
    from tfdist_trainer.data import tfrecord

    random = np.random.default_rng(6)
    for split, sizes in (("train", (50, 7)), ("eval", (29, 5))):
        for number, count in enumerate(sizes):
            numbers = random.normal(1000, 50, (count, 2)).astype(np.float32)
            price = (numbers @ [3, -2] + random.normal(0, 5, count) + 1e4).astype(np.float32)
            tfrecord.write(str(folder / f"{split}-{number}.tfrecord"), {"numbers": numbers, "price": price})
    names = ["mean_squared_error", "mean_absolute_error", "root_mean_squared_error", "r2"]
    numeric = {"numeric": {"numbers": 2}, "label": "price"}
    return numeric | {"data": {}, "metrics": [*names, "keras.MeanAbsolutePercentageError"]}


def reviews(folder: Path) -> dict[str, Any]:
    """Texts of one to nine words, so that most of each row is masked, of two classes with names."""
    random = np.random.default_rng(7)

    def rows(count: int) -> list[list[str]]:
        labels = random.integers(0, 2, count)
        texts = [random.choice([*WORDS[3 * k : 3 * k + 3], "film,", "The"], random.integers(1, 10)) for k in labels]
        return [[" ".join(text), ["no", "yes"][k]] for text, k in zip(texts, labels, strict=True)]

    for number, count in enumerate((41, 30, 1)):
        write_csv(folder / f"train-{number}.csv", ["text", "label"], rows(count))
    write_csv(folder / "eval-0.csv", ["text", "label"], rows(23))
    metrics = ["accuracy", "precision", "recall", "f1", "auc", "confusion_matrix", "keras.BinaryCrossentropy"]
    return {"data": {}, "classes": ["no", "yes"], "maxSequenceLength": 12, "embeddingDim": 8, "metrics": metrics}


def job(program: str, config: dict[str, Any], directory: Path, **fields: Any) -> dict[str, Any]:
    return {"training": {"program": program, "config": config}, "checkpoint": {"directory": str(directory)}} | fields


def details(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next((directory / "evaluation").glob("*-details.json")).read_text())
    return found


@pytest.mark.parametrize(
    ("program", "make", "better"),
    [
        pytest.param("tabular", flowers, ("accuracy", 0.5), marks=pytest.mark.long),
        ("tabular", houses, ("r2", 0.5)),
        pytest.param("text_classification", reviews, ("accuracy", 0.8), marks=pytest.mark.long),
    ],
    ids=["flowers", "houses", "reviews"],
)
def test_any_number_of_workers_learns_and_evaluates_as_one(
    launch: "Launch", program: str, make: Any, better: tuple[str, float], tmp_path: Path
) -> None:
    folder, directory = tmp_path / "data", tmp_path / "checkpoints"
    folder.mkdir()
    config = {"epochs": 12, "batchSizePerReplica": 16, "learningRate": 0.03} | make(folder)
    ending = "tfrecord" if make is houses else "csv"
    config["data"] |= {split: f"{folder}/{split}-*.{ending}" for split in ("train", "eval")}
    export = {"directory": str(tmp_path / "models"), "formats": exported.FORMATS, "which": ["Final"]}
    trained = launch(2, config={}, job=job(program, config, directory, export=export))
    alone = launch(1, config={}, job=job(program, config | {"epochs": 1}, tmp_path / "alone"))
    assert trained.wait(PATIENCE_SECONDS) == [0, 0], trained.output() + trained.output(1)
    assert alone.wait(PATIENCE_SECONDS) == [0], alone.output()
    learned, by_one = (json.loads((d / "program.json").read_text()) for d in (directory, tmp_path / "alone"))
    assert learned["learned"].get("vocabulary") == by_one["learned"].get("vocabulary")
    assert learned["learned"].get("categories") == by_one["learned"].get("categories")
    for name in ("mean", "deviation"):
        for column, values in by_one["learned"].get(name, {}).items():
            assert learned["learned"][name][column] == pytest.approx(values, rel=1e-12)

    reports: list[EvaluationReport] = []
    for size, strategy in ((1, "OneDevice"), (1, "Mirrored"), (2, "MultiWorkerMirrored"), (3, "MultiWorkerMirrored")):
        settings = job(program, config, directory, task="Evaluate", strategy=strategy)
        devices = {0: {"TFDIST_LOGICAL_CPUS": "2"}} if strategy == "Mirrored" else {}
        gang = launch(size, config={}, job=settings, environs=devices)
        assert gang.wait(PATIENCE_SECONDS) == [0] * size, [gang.output(index) for index in range(size)]
        found = [report for index in range(size) if (report := gang.termination(index).evaluation)]
        assert [report.metrics for report in found] == [found[0].metrics] * size, "members disagree"
        reports.append(found[0])
        if make is not houses:
            matrix = details(directory)["confusion_matrix"]["matrix"]
            assert np.sum(matrix) == pytest.approx(np.sum(details(directory)["confusion_matrix"]["classes"]["weight"]))
    assert reports[0].metrics[better[0]] > better[1]
    assert set(reports[0].metrics) == {"loss", *config["metrics"]} - {"confusion_matrix"}
    for report in reports[1:]:
        assert report.examples == reports[0].examples
        assert report.metrics == pytest.approx(reports[0].metrics, rel=1e-6)
    [final] = trained.termination().exports
    assert final.which == "Final"
    check_export(tmp_path / "models" / "final", program, config, directory)


def check_export(folder: Path, name: str, config: dict[str, Any], checkpoints: Path) -> None:
    """Check the exported model on the evaluation set, as it is in the files."""
    import tensorflow as tf

    from tfdist_trainer.checkpoint import CheckpointReader
    from tfdist_trainer.data.files import Shard, Split
    from tfdist_trainer.programs import choose

    program: Any = choose(name, config).create()
    program.load(json.loads((checkpoints / "program.json").read_text())["learned"])
    final = CheckpointReader(checkpoints).final("uid-1")
    assert final is not None
    for batch in program.source(Split.EVAL, Shard(0, 1)).batches():
        columns = {column.name: tf.constant(batch[column.name]) for column in program.columns()}
        exported.check(folder, program, Path(final.path), columns)


@pytest.mark.long
def test_a_bad_record_is_reported_by_its_worker_or_skipped_and_counted(launch: "Launch", tmp_path: Path) -> None:
    from tfdist_trainer.data import tfrecord

    for number in range(2):
        x = np.arange(40, dtype=np.float32)
        label = np.arange(40) % 2
        label[23] += 7 * number
        tfrecord.write(str(tmp_path / f"{number}.tfrecord"), {"x": x, "label": label})
    data = {"train": f"{tmp_path}/*.tfrecord", "eval": f"{tmp_path}/*.tfrecord"}
    config = {"data": data, "numeric": ["x"], "classes": 2, "normalize": "None", "batchSizePerReplica": 8}
    strict = launch(2, config={}, job=job("tabular", config, tmp_path / "strict"))
    assert strict.wait(PATIENCE_SECONDS) == [ExitCode.PEER_LOST, ExitCode.DATA_MALFORMED], (
        strict.output() + strict.output(1)
    )
    assert f"{tmp_path}/1.tfrecord: record 23: 'label' is 8, expected 0 to 1" in strict.termination(1).message

    config |= {"data": data | {"onBadRecord": "Skip"}}
    lenient = launch(2, config={}, job=job("tabular", config, tmp_path / "lenient"))
    assert lenient.wait(PATIENCE_SECONDS) == [0, 0], lenient.output() + lenient.output(1)
    assert "bad-records-skipped count=1 examples=39" in lenient.output(1)
    evaluated = launch(2, config={}, job=job("tabular", config, tmp_path / "lenient", task="Evaluate"))
    assert evaluated.wait(PATIENCE_SECONDS) == [0, 0], evaluated.output() + evaluated.output(1)
    report = evaluated.termination().evaluation
    assert report is not None
    assert (report.examples, report.metrics["skipped_records"]) == (79, 1)
