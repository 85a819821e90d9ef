"""Starts the processes of a gang on this machine, with the environment that pods would have."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from support.ports import free_ports

from tfdist.contract import PROGRESS_PATH
from tfdist.contract_reports import ProgressReport
from tfdist_cluster.paths import REPOSITORY

TIMEOUT_SECONDS: Final = 300
_NOTHING: Final[Mapping[str, Any]] = {}


class ProcessGroup:
    """`size` workers that run `python *command`; those that are left are killed at the end.

    `job` is added to their `TFDIST_JOB`.
    """

    def __init__(
        self, size: int, config: dict[str, Any], folder: Path, command: Sequence[str], job: Mapping[str, Any] = _NOTHING
    ) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        ports = free_ports(2 * size)
        addresses = [f"127.0.0.1:{port}" for port in ports[:size]]
        self._report_ports = ports[size:]
        self._processes = []
        for index in range(size):
            with (folder / f"out-{index}").open("wb") as out, (folder / f"err-{index}").open("wb") as err:
                environment = _environ(config, addresses, index, ports[size + index], job)
                process = subprocess.Popen([sys.executable, *command], env=environment, stdout=out, stderr=err)
                self._processes.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def wait(self) -> None:
        """Wait for the end of all.

        Raises:
            RuntimeError: one has failed.
        """
        for index, process in enumerate(self._processes):
            if process.wait(TIMEOUT_SECONDS):
                raise RuntimeError(f"exit code {process.returncode}: {(self._folder / f'err-{index}').read_text()}")

    def check(self) -> None:
        """Check that all run.

        Raises:
            RuntimeError: one has ended.
        """
        for index, process in enumerate(self._processes):
            if process.poll() is not None:
                raise RuntimeError(f"exit code {process.returncode}: {(self._folder / f'err-{index}').read_text()}")

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [process.pid for process in self._processes]

    def progress(self, index: int) -> ProgressReport | None:
        """Return the report of one process; None while it does not answer."""
        try:
            address = f"http://127.0.0.1:{self._report_ports[index]}{PROGRESS_PATH}"
            with urllib.request.urlopen(address, timeout=5) as page:
                return ProgressReport.model_validate_json(page.read())
        except OSError:
            return None

    def output(self, index: int) -> str:
        """Return the standard output of one."""
        return (self._folder / f"out-{index}").read_text()


def _environ(
    config: dict[str, Any], addresses: list[str], index: int, report_port: int, more: Mapping[str, Any]
) -> dict[str, str]:
    size = len(addresses)
    job: dict[str, Any] = {
        "name": "bench",
        "namespace": "default",
        "uid": "bench",
        "strategy": "MultiWorkerMirrored" if size > 1 else "OneDevice",
        "role": "worker",
        "index": index,
        "replicas": {"worker": size},
        # XLA is another contest: the plain loop is without it.
        "runtime": {"xla": "Off"},
        "training": {"program": "image_classification", "config": config},
    }
    result = environ() | {"TFDIST_JOB": json.dumps({**job, **more}), "TFDIST_REPORT_PORT": str(report_port)}
    if size > 1:
        result["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
    return result


def environ() -> dict[str, str]:
    """Return the environment of a process that finds this package and logs little."""
    return {name: value for name, value in os.environ.items() if name != "TF_CONFIG"} | {
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "hack"), os.environ.get("PYTHONPATH", "")]),
    }


def reported(module: str, *arguments: str, more: Mapping[str, str] = _NOTHING, timeout: float | None = None) -> Any:
    """Return the JSON that `python -m module *arguments` prints last; `more` is added to its environment."""
    command, variables = [sys.executable, "-m", module, *arguments], environ() | dict(more)
    completed = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True, timeout=timeout)
    return json.loads(completed.stdout.splitlines()[-1])
