"""The command: runs the selected measurements, and writes the table and files."""

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench import report
from bench.results import Row, Samples, Target
from bench.trainer import bucket, contest, embedding, evaluator_cost, fit_alone, fit_turns, jpeg, resume, saving, start
from bench.trainer.processes import ProcessGroup
from tfdist_cluster import console

EXAMPLES: Final = 60_000


@dataclass(frozen=True, slots=True)
class Model:
    """A model, with the part of the configuration that it needs."""

    title: str
    config: dict[str, Any]


MODELS: Final = {
    "mlp": Model("mlp, batch 128", {"model": "mlp", "batchSizePerReplica": 128}),
    "cnn": Model("small cnn, batch 128", {"model": "cnn", "batchSizePerReplica": 128}),
    "resnet": Model("resnet of 8 layers, batch 64", {"model": "resnet", "resnetBlocks": 1, "batchSizePerReplica": 64}),
}
NETWORKS: Final = {
    "resnet50": ("ResNet-50, 64 pixels, batch 16", contest.Contest("resnet50", 64, 16)),
    "transformer": ("transformer of 2 layers, 64 tokens, batch 64", contest.Contest("transformer", 64, 64)),
}
INPUT: Final = {"resume": resume.run, "jpeg": jpeg.run, "bucket": bucket.run}
AS_FAST: Final = Target(ratio=1.0, text="<= the plain loop")
ONE_PERCENT: Final = Target(ratio=1.01, text="<= 1 % more")


def main(arguments: Sequence[str]) -> int:
    """Run and return the exit status: 0 even if a target is missed: the table shows it."""
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tfdist-bench-") as name:
        base = _data(Path(name))
        _store(options, report.TRAINER, lambda: _measure(options, base, Path(name)))
        if networks := [name for name in NETWORKS if name in options.only]:
            _store(options, report.NETWORKS, lambda: _networks(networks, options))
        if names := [name for name in INPUT if name in options.only]:
            _store(options, report.DATA, lambda: _input(names, Path(name)))
        if "fit" in options.only:
            _store(options, report.FIT, lambda: _fit(base, Path(name)))
        if "evaluator" in options.only:
            _store(options, report.EVALUATOR, lambda: _evaluator_cost(base, Path(name)))
        if "embedding" in options.only:
            _store(options, report.EMBEDDING, lambda: _embedding(Path(name)))
    return 0


def _store(options: argparse.Namespace, section: str, measure: Callable[[], list[Row]]) -> None:
    """Measure the rows of a section, and print and store them if there are any."""
    began, load = datetime.now(UTC), os.getloadavg()[0]
    rows = measure()
    if rows:
        results = report.document(rows, began, load)
        print(report.show(results))
        report.write(results, options.output, section)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.trainer", description="Measures the trainer and a plain loop")
    choices = [*MODELS, *NETWORKS, "fit", "saving", "start", *INPUT, "evaluator", "embedding"]
    parser.add_argument("--only", nargs="+", choices=choices, default=choices, help="default: all")
    parser.add_argument("--processes", nargs="+", type=int, default=[1, 2], help="default: 1 2")
    parser.add_argument(
        "--rounds", type=int, default=15, help="of one turn each; the median counts; default: %(default)s"
    )
    parser.add_argument("--seconds", type=float, default=1.5, help="of a turn; default: %(default)s")
    parser.add_argument("--output", type=Path, default=report.RESULTS, help="default: hack/bench/results.json")
    return parser


def _data(folder: Path) -> dict[str, Any]:
    """Return the part of a configuration that locates the examples, after creating them."""
    data = folder / "train.npz"
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (EXAMPLES, 28, 28, 1)).astype(np.uint8)
    np.savez(data, image=images, label=random.integers(0, 10, EXAMPLES))
    return {"data": {"train": str(data)}}


def _measure(options: argparse.Namespace, base: dict[str, Any], folder: Path) -> list[Row]:
    rows: list[Row] = []
    for name in (name for name in MODELS if name in options.only):
        for size in options.processes:
            with console.step(f"{name}, {size} processes"):
                rows += _compare(MODELS[name], size, base, folder / f"{name}-{size}", options)
    if "saving" in options.only:
        with console.step("saving"):
            rows += saving.run(folder / "saving")
    if "start" in options.only:
        with console.step("start"):
            rows += start.run(base | MODELS["mlp"].config, folder)
    return rows


def _input(names: Sequence[str], folder: Path) -> list[Row]:
    """Return the rows of the input of training."""
    rows = []
    for name in names:
        with console.step(name):
            rows += INPUT[name](folder / name)
    return rows


def _networks(names: Sequence[str], options: argparse.Namespace) -> list[Row]:
    rows = []
    for name in names:
        title, network = NETWORKS[name]
        with console.step(name):
            network = replace(network, rounds=options.rounds, seconds=options.seconds)
            text = f"train: {title}, 1 process: compared with fit of Keras"
            rows.append(contest.run(network, text, {"CUDA_VISIBLE_DEVICES": "-1"}))
    return rows


def _fit(base: dict[str, Any], folder: Path) -> list[Row]:
    with console.step("fit"):
        rows = fit_turns.run(base | MODELS["mlp"].config | {"steps": 10**9}, folder / "fit")
        for model in fit_turns.MODELS:
            for size in (1, 2):
                config = base | MODELS[model].config | {"steps": 10**9}
                rows.append(fit_turns.loops(model, MODELS[model].title, size, config, folder / f"fit-{model}-{size}"))
        return rows + fit_alone.run(base["data"]["train"])


def _evaluator_cost(base: dict[str, Any], folder: Path) -> list[Row]:
    with console.step("with an evaluator"):
        return evaluator_cost.run(base | MODELS["cnn"].config, folder)


def _embedding(folder: Path) -> list[Row]:
    with console.step("embedding"):
        return embedding.run(folder / "embedding")


def _compare(model: Model, size: int, base: dict[str, Any], folder: Path, options: argparse.Namespace) -> list[Row]:
    """Return ours and the plain loop; for the smallest model also what reporting costs."""
    reporting = size == 1 and model is MODELS["mlp"]
    settings = {
        "rounds": options.rounds,
        "seconds": options.seconds,
        "reporting": reporting,
        "folder": str(folder / "checkpoints"),
    }
    config = base | model.config | {"steps": 10**9}
    with ProcessGroup(size, config, folder, ["-m", "bench.trainer.member", json.dumps(settings)]) as gang:
        gang.wait()
        durations = json.loads(gang.output(0).splitlines()[-1])
    samples = Samples()
    for name, speeds in durations.items():
        for speed in speeds:
            samples.add({name: 1e6 / speed, f"{name} speed": speed})
    title = f"train: {model.title}, {size} process{'es' if size > 1 else ''}"
    rows = [_row(title, samples, "ours", "plain", AS_FAST)]
    if reporting:
        rows.append(
            _row(
                f"{title}: with reports and TensorBoard, compared with none", samples, "reporting", "ours", ONE_PERCENT
            )
        )
    return rows


def _row(title: str, samples: Samples, ours: str, peer: str, target: Target) -> Row:
    speeds = [samples.median(f"{name} speed") or 0.0 for name in (ours, peer)]
    note = f"{speeds[0]:,.0f} and {speeds[1]:,.0f} examples/s; {samples.spread(ours)} and {samples.spread(peer)} us"
    ratio = samples.ratio(ours, peer)
    return Row(title, samples.median(ours), samples.median(peer), "us an example", target, note, ratio)
