"""Runs tests of Keras' own by two workers each, and returns how each has ended."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.polling import wait_for
from support.ports import free_ports

WORKER: Final = Path(__file__).with_name("worker.py")
WORKERS: Final = 2
HANGS_SECONDS: Final = 150.0
"""A test that takes longer hangs: one worker waits for another."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a test has ended."""

    outcome: str
    """`passed` and `skipped` if on all workers, else `failed`."""
    text: str = ""
    """Of a test that failed or was skipped: the error, or the reason."""
    replicas: int = 1
    """Replicas that its model ran on."""


def run(tests: Sequence[str], folder: Path) -> dict[str, Outcome]:
    """Run `tests`, such as `trainers/trainer_test.py::TestTrainer`, by pairs of processes; return outcomes by name.

    A pair runs all that is left until a test fails. The next pair begins with that test, in fresh processes: one that
    fails there has failed by itself.
    """
    outcomes: dict[str, Outcome] = {}
    while True:
        ended, is_finished = run_pair(tests, list(outcomes), folder / f"after-{len(outcomes)}")
        if is_finished:
            return outcomes | ended
        *before, (last, outcome) = ended.items()
        outcomes |= before
        if outcome.outcome != "failed" or not before:
            outcomes[last] = outcome


def run_pair(tests: Sequence[str], done: Sequence[str], folder: Path) -> tuple[dict[str, Outcome], bool]:
    """Run `tests` but those `done`, up to the first that fails; return outcomes, and whether all have run."""
    folder.mkdir(parents=True)
    (folder / "done").write_text("\n".join(done))
    addresses = [f"127.0.0.1:{port}" for port in free_ports(WORKERS)]
    processes = [start(tests, folder, addresses, index) for index in range(WORKERS)]
    try:
        wait(processes, folder)
        is_finished = not any(process.poll() is None or process.poll() for process in processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    ended = dict(merged([read(folder / f"{index}.jsonl") for index in range(WORKERS)]))
    outputs = [(folder / f"{index}.txt").read_text(errors="replace")[-8000:] for index in range(WORKERS)]
    assert ended or is_finished, "\n".join(["no test has started", *outputs])
    return ended, is_finished


def start(tests: Sequence[str], folder: Path, addresses: list[str], index: int) -> subprocess.Popen[bytes]:
    """Start a worker of a pair."""
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    environ = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "", "KERAS_BACKEND": "tensorflow"}
    arguments = [folder / "done", folder / f"{index}.jsonl", folder / "shared", *tests]
    with (folder / f"{index}.txt").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, str(WORKER), *map(str, arguments)],
            env=os.environ | environ | {"TF_CONFIG": json.dumps(config)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def wait(processes: list[subprocess.Popen[bytes]], folder: Path) -> None:
    """Return when all processes have ended, or one has failed, or no test has started or ended for long."""
    last, since = 0, time.monotonic()

    def is_over() -> bool:
        nonlocal last, since
        size = sum(path.stat().st_size for path in folder.glob("*.jsonl"))
        if size != last:
            last, since = size, time.monotonic()
        codes = [process.poll() for process in processes]
        return any(codes) or None not in codes or time.monotonic() - since > HANGS_SECONDS

    wait_for("tests of Keras", is_over, seconds=3600.0)


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the last line about each test in the file of a worker; a line may be cut off at its end."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return {line["name"]: line for line in map(json.loads, lines)}


def merged(workers: Sequence[Mapping[str, dict[str, Any]]]) -> Iterator[tuple[str, Outcome]]:
    """Yield the outcome of each test that a worker has started, in this order, up to the first that failed.

    The other worker may have started later ones.
    """
    for name in max(workers, key=len):
        lines = [worker.get(name, {"outcome": "started"}) for worker in workers]
        outcomes = {line["outcome"] for line in lines}
        text = "\n".join(dict.fromkeys(line["text"] for line in lines if line.get("text")))
        outcome = outcomes.pop() if len(outcomes) == 1 else "failed"
        replicas = min(line.get("replicas", 1) for line in lines)
        yield name, Outcome("failed" if outcome == "started" else outcome, text or "no error: it hung", replicas)
        if outcome in {"failed", "started"}:
            return
