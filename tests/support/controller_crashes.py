"""Controllers that die, each of the jobs of one namespace, as long as a block runs."""

import os
import pathlib
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from support import controller as controllers
from support.api import Api
from support.crashing_controller import ENDED, Run, dump
from support.ports import free_ports

_SCRIPT = pathlib.Path(__file__).with_name("crashing_controller.py")


@contextmanager
def namespaces(api: Api, number: int) -> Iterator[list[str]]:
    """Make namespaces, and delete them at the end."""
    names = [f"test-{uuid.uuid4().hex[:8]}" for _ in range(number)]
    for name in names:
        api.do("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield names
    for name in names:
        api.do("DELETE", f"/api/v1/namespaces/{name}")


def runs_in(names: Sequence[str], points: range, folder: pathlib.Path) -> list[Run]:
    """Return a run for each namespace, which dies at the point of the same index; their logs are in a folder."""
    runs = []
    for name, point, port in zip(names, points, free_ports(len(points)), strict=True):
        run = Run(name, port, point, str(folder / f"{point}.log"))
        pathlib.Path(run.log).touch()
        runs.append(run)
    return runs


@contextmanager
def controlled(api: Api, folder: pathlib.Path, runs: Sequence[Run]) -> Iterator[None]:
    """Have the controllers of some runs."""
    environment = {
        "KUBECONFIG": str(controllers._kubeconfig(api, folder, api.host)),
        "TFDIST_TRAINER_IMAGE": "tfdist/trainer:test",
        "TFDIST_LEADER_ELECTION": "false",
    }
    with (folder / "controllers.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, str(_SCRIPT), dump([*runs])],
            env=os.environ | environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            print((folder / "controllers.log").read_text())  # pytest shows it if a test failed


def logs_of(runs: Sequence[Run]) -> dict[int, str]:
    """Return the log of each run by its point.

    Raises:
        AssertionError: a controller has ended that was not to.
    """
    logs = {run.die_before: pathlib.Path(run.log).read_text() for run in runs}
    assert not any(ENDED in log for log in logs.values()), f"a controller ended that was not to: {logs}"
    return logs
