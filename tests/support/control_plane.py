"""A real control plane without kubelets, as long as a block runs."""

import pathlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tfdist_cluster import lock
from tfdist_cluster.paths import State

ROOT = pathlib.Path(__file__).resolve().parents[2]


@contextmanager
def control_plane(*, fake_nodes: int) -> Iterator[pathlib.Path]:
    """Start it, and stop it at the end; yield the kubeconfig of an administrator.

    A clone has one: a suite that runs in parallel waits.
    """
    state = State.from_environment()
    with lock.exclusive(state.root / "control-plane-of-tests.lock"):
        try:
            _cluster("up", "--kwok-nodes", str(fake_nodes))
            yield state.folder("control-plane") / "kubeconfig"
        finally:
            _cluster("down")


def _cluster(*arguments: str) -> None:
    command = [sys.executable, "-m", "tfdist_cluster", "control-plane", *arguments]
    subprocess.run(command, cwd=ROOT / "hack" / "cluster", check=True)
