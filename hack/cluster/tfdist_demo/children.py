"""Commands of this project that run at the same time, each line of output prefixed with the command's name."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from tfdist_cluster import console, paths
from tfdist_cluster.errors import ClusterError

GRACE_SECONDS = 20
PYTHON_PATH = paths.CLUSTER


def module(name: str, *arguments: str) -> list[str]:
    """Return the command line of a module next to this package."""
    return [sys.executable, "-m", name, *arguments]


def run_together(commands: Mapping[str, Sequence[str]]) -> None:
    """Run commands (by a short name) until all have ended; if one fails, stop the others.

    Raises:
        ClusterError: a command failed; its output says why.
    """
    processes = {name: _start(command) for name, command in commands.items()}
    width = max(map(len, processes))
    readers = [
        threading.Thread(target=_relay, args=(name.ljust(width), child), daemon=True)
        for name, child in processes.items()
    ]
    for reader in readers:
        reader.start()
    try:
        failed = _first_failure(processes)
    finally:
        _stop(list(processes.values()))
    for reader in readers:
        reader.join(timeout=GRACE_SECONDS)
    if failed:
        raise ClusterError(f"{failed} failed; its output above says why. Run the same command again to continue.")


def _start(command: Sequence[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        list(command), env={**os.environ, "PYTHONPATH": str(PYTHON_PATH), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        start_new_session=True,  # a new process group, so that its children are stopped with it
    )  # fmt: skip


def _relay(name: str, child: "subprocess.Popen[str]") -> None:
    for line in child.stdout or ():
        if line.strip():
            console.info(f"{name} | {line.rstrip()}")


def _first_failure(children: Mapping[str, "subprocess.Popen[str]"]) -> str | None:
    """Wait until all have succeeded or one has failed; return the name of the failed one."""
    while True:
        statuses = {name: child.poll() for name, child in children.items()}
        failed = next((name for name, status in statuses.items() if status), None)
        if failed or None not in statuses.values():
            return failed
        time.sleep(0.1)


def _stop(children: Sequence["subprocess.Popen[str]"]) -> None:
    """Stop the processes that still run, with their compilers and builders, which can be interrupted at any time."""
    running = [child for child in children if child.poll() is None]
    for child in running:
        os.killpg(child.pid, signal.SIGTERM)
    for child in running:
        try:
            child.wait(timeout=GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
