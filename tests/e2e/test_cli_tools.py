"""The commands that connect to pods, in a cluster that runs them: exit codes, stacks, a forwarded port."""

import subprocess
import sys
import urllib.request

import pytest
from support.e2e import Cluster
from support.polling import wait_for
from support.rounds import started

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def run(cluster: Cluster, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the command `tfdist` without a terminal."""
    name, *rest = words
    command = [sys.executable, "-m", "tfdist.cli", name, "--namespace", cluster.namespace, *rest]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=120)


def test_the_tools_reach_a_training_replica(cluster: Cluster) -> None:
    with started(cluster, "tools", replicas=2, epochs=300):
        # A command has its input, its end, and its exit code
        copied = run(cluster, "shell", "tools", "worker-1", "--", "cat", stdin="through the container")
        assert (copied.returncode, copied.stdout, copied.stderr) == (0, "through the container", "")
        failed = run(cluster, "shell", "tools", "--", "sh", "-c", "echo err >&2; exit 7")
        assert (failed.returncode, failed.stdout, failed.stderr) == (7, "", "err\n")
        absent = run(cluster, "shell", "tools", "--", "no-such-program")
        assert (absent.returncode, absent.stderr.count("\n")) == (2, 1)

        # The stacks are those of the training processes
        stacks = wait_for("stacks of both", lambda: _stacks_of_both(cluster))
        assert "MainThread" in stacks

        # The report port is that of the pod
        command = [
            sys.executable,
            "-m",
            "tfdist.cli",
            "port-forward",
            "--namespace",
            cluster.namespace,
            "tools",
            ":8790",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
            try:
                assert forward.stdout
                address = forward.stdout.readline().split()[0]
                with urllib.request.urlopen(f"http://{address}/healthz", timeout=60) as answer:
                    assert answer.read() == b"ok\n"
            finally:
                forward.kill()
    cluster.delete_job("tools")


def _stacks_of_both(cluster: Cluster) -> str:
    found = run(cluster, "stacks", "tools").stdout
    return found if found.count("== worker-") == 2 else ""
