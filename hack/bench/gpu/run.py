"""The command: measures the parts that are asked for, each in at most ten minutes, and leaves a table and a file."""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench import report
from bench.gpu import recovery
from bench.results import Row
from bench.trainer import contest
from tfdist_cluster import console
from tfdist_cluster.paths import REPOSITORY

RESULTS: Final = REPOSITORY / "hack" / "bench" / "gpu.json"
TRACES: Final = REPOSITORY / ".state" / "bench-gpu"
NETWORK: Final = {False: ("ResNet-50", 224, 128), True: ("ResNet-50", 64, 4)}
"""By whether the form is small: the title, the pixels and the batch."""
CONTESTS: Final[dict[str, dict[str, Any]]] = {
    "float32": {},
    "float32-xla": {"xla": True},
    "bfloat16": {"precision": "bfloat16"},
    "bfloat16-xla": {"precision": "bfloat16", "xla": True},
}
PARTS: Final = (*CONTESTS, "recovery")


def main(arguments: Sequence[str]) -> int:
    """Run and return the exit status: 0 even if a target is missed, or if there is no GPU: the text states it."""
    options = _parser().parse_args(arguments)
    gpus = listed_gpus()
    if options.device == "GPU" and not gpus:
        print(
            f"skipped {', '.join(options.only)}: nvidia-smi finds no NVIDIA GPU on this machine; --device cpu --small"
        )
        return 0
    with tempfile.TemporaryDirectory(prefix="tfdist-bench-") as folder:
        for part in options.only:
            began, load = datetime.now(UTC), os.getloadavg()[0]
            with console.step(part):
                rows = measured(part, options, Path(folder))
            results = report.document(rows, began, load)
            results["machine"]["gpus"] = gpus
            print(report.show(results))
            if not options.small:
                _store(options.output, part, results)
    return 0


def measured(part: str, options: argparse.Namespace, folder: Path) -> list[Row]:
    """Return the rows of a part."""
    if part == "recovery":
        return recovery.run(folder / part, options.device, 2 if options.small else 10)
    title, pixels, batch = NETWORK[options.small]
    trace = (folder if options.small else TRACES) / part
    selected = contest.Contest(
        "resnet50", pixels, batch, device=options.device, rounds=options.rounds, seconds=options.seconds,
        trace=str(trace), **CONTESTS[part],
    )  # fmt: skip
    text = f"train: {title}, {pixels} pixels, batch {batch}, {part}, one {options.device}"
    row = contest.run(selected, text, {"CUDA_VISIBLE_DEVICES": "-1"} if options.device == "CPU" else {})
    if not any(trace.rglob("*.xplane.pb")):
        raise RuntimeError(f"{trace}: the profiler has written no trace")
    return [row]


def listed_gpus() -> list[str]:
    """Return the GPUs of this machine with their drivers."""
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    return completed.stdout.splitlines() if completed.returncode == 0 else []


def _store(output: Path, part: str, results: dict[str, Any]) -> None:
    stored = json.loads(output.read_text()) if output.exists() else {}
    output.write_text(json.dumps(stored | {part: results}, indent=2, ensure_ascii=False) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.gpu", description="Measures the trainer and Keras' fit on a GPU")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="default: all")
    parser.add_argument("--device", type=str.upper, choices=["GPU", "CPU"], default="GPU", help="default: %(default)s")
    parser.add_argument("--small", action="store_true", help="images of 64 pixels, a batch of 4; nothing is stored")
    parser.add_argument("--rounds", type=int, default=10, help="of one turn each; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a turn; default: %(default)s")
    parser.add_argument("--output", type=Path, default=RESULTS, help="default: hack/bench/gpu.json")
    return parser
