"""What a concurrent evaluator costs the steps of a training if each has its own CPU, as pods with requests have.

One training and its evaluator, which has another checkpoint to score at every moment. In other turns the evaluator is
stopped by a signal, and a process that runs the same model for no job has its CPU instead: what two CPUs of a machine
share, caches and memory, both take alike, and the difference is what the training has to do with its evaluator. In
further turns that CPU is left to itself, for the remark.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from bench.results import Row, Samples, Target
from bench.trainer.processes import ProcessGroup, environ
from tfdist.contract_reports import ProgressReport

ROUNDS: Final = 15
SECONDS: Final = 3.0
"""Of a turn; a step is reported every half second."""
UNTIL_SECONDS: Final = 180.0
KINDS: Final = ("evaluator", "foreign", "alone")
NOTHING: Final = Target(ratio=1.02, text="<= 2 % more")


def run(config: dict[str, Any], folder: Path) -> list[Row]:
    """Return the time of a step next to an active evaluator, and next to a foreign process; none on a single CPU."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:  # noqa: PLR2004  one for each
        return []
    data = config["data"]["train"]
    full_config = config | {"data": {"train": data, "eval": data}, "steps": 10**9}
    checkpoint = {"directory": str(folder / "checkpoints"), "everySeconds": 1, "keep": 3}
    evaluator = {"role": "evaluator", "task": "Evaluate", "evaluation": {"mode": "Continuous"}}
    command = ["-m", "tfdist_trainer"]
    training = ProcessGroup(1, full_config, folder / "training", command, {"checkpoint": checkpoint})
    with (
        training,
        ProcessGroup(1, full_config, folder / "evaluator", command, {"checkpoint": checkpoint, **evaluator}) as scoring,
    ):
        os.sched_setaffinity(training.pids[0], {cores[0]})
        os.sched_setaffinity(scoring.pids[0], {cores[1]})
        _wait_for_report(scoring, lambda report: report.evaluation is not None)
        command = [sys.executable, "-m", "bench.trainer.foreign", json.dumps(full_config)]
        with subprocess.Popen(command, env=environ(), stdout=subprocess.PIPE) as foreign:
            os.sched_setaffinity(foreign.pid, {cores[1]})
            others = {"evaluator": scoring.pids[0], "foreign": foreign.pid}
            try:
                assert foreign.stdout is not None  # noqa: S101  it is a pipe
                foreign.stdout.readline()
                samples, scored = _turns(training, others, folder / "checkpoints" / "evaluation")
            finally:
                foreign.kill()
    kinds = ", ".join(f"{kind} {samples.median(kind):.3g} ms ({samples.spread(kind)})" for kind in KINDS)
    note = f"{kinds}; {scored} checkpoints scored on 60,000 examples each"
    title = "train: a step with its evaluator on another CPU, compared with the same model run there for no job"
    ratio = samples.ratio("evaluator", "foreign")
    return [Row(title, samples.median("evaluator"), samples.median("foreign"), "ms", NOTHING, note, ratio)]


def _turns(training: ProcessGroup, others: Mapping[str, int], results: Path) -> tuple[Samples, int]:
    """Return the milliseconds of a step in each kind of turn, and how many checkpoints were scored meanwhile.

    Each kind of turn has the process of its name in `others` run, and no other of them.
    """
    samples = Samples()
    first = _count_scored(results)
    for number in range(ROUNDS):
        results_by_name = {}
        for kind in KINDS if number % 2 else reversed(KINDS):
            for name, pid in others.items():
                os.kill(pid, signal.SIGCONT if name == kind else signal.SIGSTOP)
            results_by_name[kind] = _milliseconds(training)
        samples.add(results_by_name)
    return samples, _count_scored(results) - first


def _milliseconds(training: ProcessGroup) -> float:
    """Return the milliseconds of a step over the next seconds."""
    first_report = _wait_for_report(training, lambda report: bool(report.step))
    began = _wait_for_report(training, lambda report: (report.step or 0) > (first_report.step or 0))
    time.sleep(SECONDS)
    last_report = _wait_for_report(training, lambda report: (report.step or 0) > (began.step or 0))
    seconds = (_moment(last_report) - _moment(began)).total_seconds()
    return 1000 * seconds / ((last_report.step or 0) - (began.step or 0))


def _moment(report: ProgressReport) -> datetime:
    """Return when the step of a report was finished."""
    assert report.step_at is not None  # noqa: S101  it comes with the step
    return datetime.fromisoformat(report.step_at)


def _count_scored(results: Path) -> int:
    return sum(path.stem.isdecimal() for path in results.glob("*.json"))


def _wait_for_report(gang: ProcessGroup, condition: Callable[[ProgressReport], bool]) -> ProgressReport:
    """Return the first report that is as `wanted`.

    Raises:
        TimeoutError: none came.
    """
    deadline = time.monotonic() + UNTIL_SECONDS
    while time.monotonic() < deadline:
        report = gang.progress(0)
        if report is not None and condition(report):
            return report
        time.sleep(0.05)
    raise TimeoutError(f"no such report: {gang.output(0)}")
