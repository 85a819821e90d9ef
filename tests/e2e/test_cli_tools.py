"""The commands that connect to pods, in a cluster that runs them: exit codes, stacks, a forwarded port."""

import pathlib
import urllib.request

import pytest
from support.cluster_command import ClusterCommand
from support.e2e import Cluster
from support.polling import wait_for
from support.rounds import started

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_the_tools_reach_a_training_replica(cluster: Cluster, tmp_path: pathlib.Path) -> None:
    command = ClusterCommand(cluster, tmp_path)
    with started(cluster, "tools", replicas=2, epochs=300):
        # A command has its input, its end, and its exit code
        copied = command.run("shell", "tools", "worker-1", "--", "cat", stdin="through the container")
        assert (copied.code, copied.output, copied.errors) == (0, "through the container", "")
        failed = command.run("shell", "tools", "--", "sh", "-c", "echo err >&2; exit 7")
        assert (failed.code, failed.output, failed.errors) == (7, "", "err\n")
        absent = command.run("shell", "tools", "--", "no-such-program")
        assert (absent.code, absent.errors.count("\n")) == (2, 1)

        # The stacks are those of the training processes
        stacks = wait_for("stacks of both", lambda: _stacks_of_both(command))
        assert stacks.count("_run_module_as_main") >= 2

        # The report port is that of the pod
        with command.start("port-forward", "tools", ":8790") as forward:
            try:
                assert forward.stdout
                address = forward.stdout.readline().split()[0]
                with urllib.request.urlopen(f"http://{address}/healthz", timeout=60) as answer:
                    assert answer.read() == b"ok\n"
            finally:
                forward.kill()
    cluster.delete_job("tools")


def _stacks_of_both(command: ClusterCommand) -> str:
    found = command.run("stacks", "tools").output
    return found if found.count("== worker-") == 2 else ""
