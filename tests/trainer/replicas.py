"""The processes of a gang, as tests of the trainer start them."""

import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

from support.forked import STACKS_LINE, STACKS_SIGNAL, Fork, Running
from support.polling import wait_for

from tfdist.contract_reports import ProgressReport, TerminationMessage

TIMEOUT_SECONDS = 300.0


@dataclass
class Replicas:
    """The processes of one gang."""

    folder: Path
    processes: dict[int, Running] = field(default_factory=dict)
    """By number; members that have not been started are not there."""
    report_ports: list[int] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    """Of TensorFlow's servers."""
    environs: list[dict[str, str]] = field(default_factory=list)
    cold: bool = False
    """Whether members are new interpreters, each of which imports TensorFlow, and not forks of one that has."""

    def start(self, index: int) -> None:
        """Start member `index`, or start it again, behind those that have been."""
        path = self.folder / f"out-{index}"
        if not self.cold:
            self.processes[index] = Fork(self.environs[index], path)
            return
        with path.open("ab") as output:
            command = [sys.executable, "-m", "tfdist_trainer"]
            process = subprocess.Popen(command, env=self.environs[index], stdout=output, stderr=subprocess.STDOUT)
        self.processes[index] = process

    def wait(self, timeout_seconds: float = TIMEOUT_SECONDS) -> list[int]:
        """Return the exit code of each.

        Raises:
            AssertionError: one has not ended in time; the text has the outputs of all, with the stacks of those forks.
        """
        deadline = time.monotonic() + timeout_seconds
        try:
            return [each.wait(max(0.1, deadline - time.monotonic())) for _, each in sorted(self.processes.items())]
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"{self._dump_stacks()} did not end in {timeout_seconds} s\n{self.outputs}") from error

    def _dump_stacks(self) -> str:
        """Have the forks that run write their stacks to their outputs, and return the numbers of all that run."""
        running = [index for index, process in sorted(self.processes.items()) if process.poll() is None]
        for index in running if not self.cold else ():
            self.processes[index].send_signal(STACKS_SIGNAL)
            wait_for("the stacks", lambda: STACKS_LINE in self.output(index), seconds=10)  # noqa: B023  called at once
        return f"members {running}"

    def output(self, index: int = 0) -> str:
        return (self.folder / f"out-{index}").read_text()

    @property
    def outputs(self) -> str:
        """Of all members."""
        return "\n".join(f"--- {index}\n{self.output(index)}" for index in sorted(self.processes))

    def termination(self, index: int = 0) -> TerminationMessage:
        return TerminationMessage.model_validate_json((self.folder / f"termination-{index}").read_bytes())

    def get(self, path: str, index: int = 0) -> str | None:
        """Return the answer of the report port, or None while it is closed."""
        url = f"http://127.0.0.1:{self.report_ports[index]}{path}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return str(answer.read().decode())
        except (OSError, HTTPException):  # also if it was killed while it answered
            return None

    def progress_when(self, wanted: Callable[[ProgressReport], bool], index: int = 0) -> ProgressReport:
        """Return the first report that is as `wanted`."""

        def wanted_report() -> ProgressReport | None:
            text = self.get("/v1/progress", index)
            report = ProgressReport.model_validate_json(text) if text else None
            if report is not None and wanted(report):
                return report
            assert self.processes[index].poll() is None, f"the replica has ended: {self.output(index)}"
            return None

        found = wait_for("such a report", wanted_report, every_seconds=0.02, context=lambda: self.output(index))
        assert found is not None
        return found

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()


Launch = Callable[..., Replicas]
