"""Starts launchers as pods would, as processes on this machine, around small scripts that need no TensorFlow."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tfdist.contract import GangReport, ProgressReport, TerminationMessage

TIMEOUT_SECONDS = 120.0


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [int(item.getsockname()[1]) for item in sockets]
    finally:
        for item in sockets:
            item.close()


def wait_for(what: Callable[[], Any], why: Callable[[], str] = str) -> Any:
    """Return the first value of `what` that is true."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if value := what():
            return value
        time.sleep(0.02)
    raise AssertionError(f"not in time: {why()}")


@dataclass
class Launchers:
    """The launchers of one gang."""

    folder: Path
    command: tuple[str, ...]
    launch: dict[str, Any]
    job: dict[str, Any]
    ports: list[int]
    report_ports: list[int]
    environ: dict[str, str]
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    past: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, seat: int, **job: Any) -> None:
        """Start the launcher of a seat, or its successor."""
        if seat in self.processes:
            self.past.append(self.processes[seat])
            (self.report_ports[seat],) = free_ports(1)  # its predecessor may still have the other
        told = {
            "name": "test",
            "namespace": "default",
            "uid": "uid-1",
            "strategy": "MultiWorkerMirrored",
            "role": "worker",
            "index": seat,
            "replicas": {"worker": len(self.ports)},
            "launch": {
                "members": [
                    {"role": "worker", "index": index, "address": f"127.0.0.1:{port}"}
                    for index, port in enumerate(self.ports)
                ],
                "firstDelaySeconds": 0.1,
                **self.launch,
            },
        }
        environ = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"} | {
            "TFDIST_JOB": json.dumps(told | self.job | job),
            "TFDIST_LAUNCH_PORT": str(self.ports[seat]),
            "TFDIST_REPORT_PORT": str(self.report_ports[seat]),
            "TFDIST_TERMINATION_LOG": str(self.folder / f"termination-{seat}"),
            "FOLDER": str(self.folder),
            "SEAT": str(seat),
            "PYTHONUNBUFFERED": "1",
            **self.environ,
        }
        with (self.folder / f"out-{seat}").open("ab") as output:
            self.processes[seat] = subprocess.Popen(
                [sys.executable, "-m", "tfdist_launch", *self.command],
                env=environ,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def output(self) -> str:
        return "\n".join(f"== {p.name}\n{p.read_text()}" for p in sorted(self.folder.glob("out-*")))

    def wait(self) -> list[int]:
        """Return the exit code of each, in order of seats."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        try:
            return [p.wait(max(0.1, deadline - time.monotonic())) for _, p in sorted(self.processes.items())]
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not ended in time: {self.output()}") from None

    def report(self, seat: int = 0) -> ProgressReport | None:
        try:
            url = f"http://127.0.0.1:{self.report_ports[seat]}/v1/progress"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return ProgressReport.model_validate_json(answer.read())
        except OSError:
            return None

    def get(self, path: str, seat: int = 0) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.report_ports[seat]}{path}", timeout=20) as answer:
            return str(answer.read().decode())

    def gang_when(self, wanted: Callable[[GangReport], Any]) -> GangReport:
        """Return the leader's first report of the gang that is as `wanted`."""

        def look() -> GangReport | None:
            report = self.report()
            gang = report.gang if report else None
            return gang if gang is not None and wanted(gang) else None

        found: GangReport = wait_for(look, self.output)
        return found

    def program(self, seat: int, number: int) -> int:
        """Return the process of a round's program, once it runs."""
        path = self.folder / f"pid-{seat}-{number}"

        def look() -> str:
            assert self.processes[seat].poll() is None, f"the launcher has ended: {self.output()}"
            return path.read_text() if path.exists() else ""

        return int(wait_for(look, self.output))

    def termination(self, seat: int = 0) -> TerminationMessage:
        return TerminationMessage.model_validate_json((self.folder / f"termination-{seat}").read_bytes())

    def stop(self) -> None:
        for process in [*self.processes.values(), *self.past]:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()


Launch = Callable[..., Launchers]

PRELUDE = """
import os, pathlib, signal, sys, time
folder, seat = pathlib.Path(os.environ["FOLDER"]), int(os.environ["SEAT"])
number = int(os.environ["TFDIST_ROUND"])
def ready():
    new = folder / f".pid-{seat}-{number}"
    new.write_text(str(os.getpid()))
    new.rename(folder / f"pid-{seat}-{number}")
def wait_for_end():
    while not (folder / "end").exists():
        time.sleep(0.02)
"""


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """A function that starts the launchers of a gang around a script, or a command."""
    started: list[Launchers] = []

    def start(
        size: int = 2,
        *,
        script: str = "ready(); wait_for_end()",
        command: tuple[str, ...] = (),
        settings: dict[str, Any] | None = None,
        job: dict[str, Any] | None = None,
        environ: dict[str, str] | None = None,
    ) -> Launchers:
        file = tmp_path / "program.py"
        file.write_text(PRELUDE + script)
        whole = command or ("--cold", "--", sys.executable, "-S", str(file))
        ports = free_ports(2 * size)
        launchers = Launchers(tmp_path, whole, settings or {}, job or {}, ports[:size], ports[size:], environ or {})
        started.append(launchers)
        for seat in range(size):
            launchers.start(seat)
        return launchers

    yield start
    for launchers in started:
        launchers.stop()
