"""Starts launchers as pods would, as processes on this machine; for tests and the benchmark of recovery."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np

from support.polling import WAIT_SECONDS, wait_for
from support.ports import free_ports
from tfdist.contract_reports import GangReport, ProgressReport, TerminationMessage
from tfdist_trainer.data import npz

KEY = "0a" * 32
"""Key of the job of the tests."""


@dataclass
class Launchers:
    """The launchers of one gang."""

    folder: Path
    command: tuple[str, ...]
    launch: dict[str, Any]
    job: dict[str, Any]
    ports: list[int]
    report_ports: list[int]
    environ_of: Callable[[int], dict[str, str]]
    standby: frozenset[int] = frozenset()
    """Ranks with a standby process."""
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    past: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, rank: int, **job: Any) -> None:
        """Start the launcher of a rank, or its successor."""
        if rank in self.processes:
            self.past.append(self.processes[rank])
            (self.report_ports[rank],) = free_ports(1)  # its predecessor may still have the other
        with (self.folder / f"out-{rank}").open("ab") as output:
            self.processes[rank] = subprocess.Popen(
                [sys.executable, "-m", "tfdist_launch", *self.command],
                env=self.environ(rank, **job),
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def environ(self, rank: int, **job: Any) -> dict[str, str]:
        """Return the environment of a replica."""
        settings = {
            "name": "test",
            "namespace": "default",
            "uid": "uid-1",
            "strategy": "MultiWorkerMirrored",
            "role": "worker",
            "index": rank,
            "replicas": {"worker": len(self.ports)},
            "launch": self._launch(rank),
        }
        return {key: value for key, value in os.environ.items() if key != "TF_CONFIG"} | {
            "TFDIST_JOB": json.dumps(settings | self.job | job),
            "TFDIST_LAUNCH_KEY": KEY,
            "TFDIST_LAUNCH_PORT": str(self.ports[rank]),
            "TFDIST_REPORT_PORT": str(self.report_ports[rank]),
            "TFDIST_TERMINATION_LOG": str(self.folder / f"termination-{rank}"),
            "FOLDER": str(self.folder),
            "RANK": str(rank),
            "PYTHONUNBUFFERED": "1",
            **self.environ_of(rank),
        }

    def _launch(self, rank: int) -> dict[str, Any]:
        settings = {
            "leader": f"127.0.0.1:{self.ports[0]}",
            "rank": rank,
            "standby": rank in self.standby,
        }
        return settings if rank else settings | {"gang": self._gang()}

    def _gang(self) -> dict[str, Any]:
        """Return the settings of the leader."""
        members = [{"role": "worker", "index": 0, "count": len(self.ports)}]
        return {"memberRanges": members, "firstDelaySeconds": 0.1, **self.launch}

    def output(self) -> str:
        return "\n".join(f"== {p.name}\n{p.read_text()}" for p in sorted(self.folder.glob("out-*")))

    def wait(self) -> list[int]:
        """Return the exit code of each, in order of ranks."""
        return [self.exit_code(process) for _, process in sorted(self.processes.items())]

    def exit_code(self, process: subprocess.Popen[bytes]) -> int:
        """Return how a launcher has ended, once it has."""
        wait_for("the end of a launcher", lambda: process.poll() is not None, context=self.output)
        return process.returncode

    def report(self, rank: int = 0) -> ProgressReport | None:
        try:
            url = f"http://127.0.0.1:{self.report_ports[rank]}/v1/progress"
            with urllib.request.urlopen(url, timeout=30) as answer:
                return ProgressReport.model_validate_json(answer.read())
        except (OSError, HTTPException):  # also if it was killed while it answered
            return None

    def get(self, path: str, rank: int = 0) -> str:
        url = f"http://127.0.0.1:{self.report_ports[rank]}{path}"
        with urllib.request.urlopen(url, timeout=WAIT_SECONDS) as answer:
            return str(answer.read().decode())

    def gang_when(self, accept: Callable[[GangReport], Any]) -> GangReport:
        """Return the leader's first report of the gang that `accept` accepts."""

        def accepted_gang() -> GangReport | None:
            report = self.report()
            gang = report.gang if report else None
            return gang if gang is not None and accept(gang) else None

        first = wait_for("a report of the gang", accepted_gang, context=self.output)
        assert first is not None
        return first

    def program(self, rank: int, number: int) -> int:
        """Return the process of a round's program, once it runs."""
        path = self.folder / f"pid-{rank}-{number}"

        def written() -> str:
            assert self.processes[rank].poll() is None, f"the launcher has ended: {self.output()}"
            return path.read_text() if path.exists() else ""

        return int(wait_for(f"round {number} of rank {rank}", written, context=self.output))

    def termination(self, rank: int = 0) -> TerminationMessage:
        return TerminationMessage.model_validate_json((self.folder / f"termination-{rank}").read_bytes())

    def stop(self) -> None:
        for process in [*self.processes.values(), *self.past]:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()


def end(launchers: Launchers) -> None:
    """Let all programs succeed, and check that all launchers do and leave no process behind.

    The leader's report is read until it exits, as the controller does: it waits for a reader of what it has not
    reported yet (`FINAL_REPORT_SECONDS`).
    """
    (launchers.folder / "end").touch()
    leader = launchers.processes[0]
    wait_for("the end of the leader", lambda: launchers.report() is None and leader.poll() is not None)
    assert launchers.wait() == [0] * len(launchers.ports), launchers.output()
    for path in launchers.folder.glob("pid-*"):
        assert not exists(int(path.read_text()))


def exists(pid: int) -> bool:
    """Return whether there is a process, and not only what is left of one."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


EXAMPLES = 203
BATCH = 8


def training_job(folder: Path, *, epochs: int, every_steps: int = 100) -> dict[str, Any]:
    """Return what of `TFDIST_JOB` concerns a small training, and write its data."""
    random = np.random.default_rng(1)
    images = random.integers(0, 255, (EXAMPLES, 5, 5, 1)).astype(np.uint8)
    npz.save(str(folder / "train.npz"), image=images, label=random.integers(0, 4, EXAMPLES))
    config = {
        "data": {"train": str(folder / "train.npz")},
        "imageShape": [5, 5, 1],
        "classes": 4,
        "model": "mlp",
        "batchSizePerReplica": BATCH,
        "epochs": epochs,
    }
    return {
        "runtime": {"intraOpThreads": 1, "interOpThreads": 1, "xla": "Off"},
        "training": {"program": "image_classification", "config": config},
        "checkpoint": {"directory": str(folder / "checkpoints"), "everySteps": every_steps, "keep": 2},
    }


def examples_after(step: int) -> int:
    """Return how many examples two workers of that training have used after so many steps."""
    batch = 2 * BATCH
    epochs, steps = divmod(step, -(-EXAMPLES // batch))
    return epochs * EXAMPLES + steps * batch


def tf_environ(size: int) -> Callable[[int], dict[str, str]]:
    """Return a function from a rank to its `TF_CONFIG`."""
    cluster = [f"127.0.0.1:{port}" for port in free_ports(size, together=2)]

    def environ(rank: int) -> dict[str, str]:
        spec = {"cluster": {"worker": cluster}, "task": {"type": "worker", "index": rank}}
        return {"TF_CONFIG": json.dumps(spec), "CUDA_VISIBLE_DEVICES": "-1"}

    return environ


def trains(launchers: Launchers, number: int, beyond: int = -1) -> int:
    """Return the step of the gang, once it takes steps in that round, or a later one, beyond a step."""

    def later_step() -> int:
        report = launchers.report()
        if report is None or report.round < number or report.phase != "training" or report.step is None:
            return 0
        return report.step if report.step > beyond else 0

    return wait_for(f"a step of round {number} beyond {beyond}", later_step, context=launchers.output)


def program_of(launchers: Launchers, rank: int) -> int:
    """Return the training process, a child of the fork server, which is a child of the launcher."""
    return wait_for(f"a process of rank {rank}", lambda: programs_of(launchers, rank), context=launchers.output)[0]


def programs_of(launchers: Launchers, rank: int) -> list[int]:
    """Return the training process, and the standby process if there is one; none before they are started."""
    return [pid for fork_server in children(launchers.processes[rank].pid) for pid in children(fork_server)]


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
