"""The command `tfdist` as a process, with the kubeconfig of a cluster that runs pods."""

import os
import pathlib
import subprocess
import sys
from dataclasses import dataclass

from support.e2e import Cluster
from support.polling import WAIT_SECONDS


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command has ended."""

    code: int
    output: str
    errors: str


class ClusterCommand:
    """Runs the command in a folder, without a terminal."""

    def __init__(self, cluster: Cluster, folder: pathlib.Path) -> None:
        self._namespace, self._folder = cluster.namespace, folder
        self._environment = os.environ | {"KUBECONFIG": cluster.kubectl.kubeconfig}

    def start(self, name: str, *arguments: str) -> "subprocess.Popen[str]":
        """Start a command; its errors are in its output."""
        return self._start(name, arguments, subprocess.STDOUT)

    def run(self, name: str, *arguments: str, stdin: str = "") -> Ended:
        """Run a command to its end."""
        process = self._start(name, arguments, subprocess.PIPE)
        output, errors = process.communicate(stdin, timeout=WAIT_SECONDS)
        return Ended(process.returncode, output, errors)

    def _start(self, name: str, arguments: tuple[str, ...], errors: int) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "tfdist.cli", name, "-n", self._namespace, *arguments],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
