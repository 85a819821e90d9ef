"""`tfdist shell`: a command in a container has the input, output and terminal of a local one."""

import concurrent.futures
import fcntl
import os
import pathlib
import pty
import struct
import subprocess
import sys
import termios

import pytest
from support.api import Api, Json
from support.command_user import CommandUser
from support.polling import WAIT_SECONDS, wait_for
from support.streaming_kubelet import StreamingNode

pytestmark = pytest.mark.integration


@pytest.fixture
def job(user: CommandUser, api: Api, namespace: str) -> Json:
    user.submit()
    return api.job(namespace, "fashion")


def command_line(tmp_path: pathlib.Path, *words: str) -> list[str]:
    """Return the command `tfdist shell` with the user's kubeconfig."""
    return [sys.executable, "-m", "tfdist.cli", "shell", "--kubeconfig", str(tmp_path / "kubeconfig"), *words]


def run_shell(tmp_path: pathlib.Path, *words: str) -> "subprocess.CompletedProcess[bytes]":
    """Run `tfdist shell` without a terminal and without input."""
    return subprocess.run(command_line(tmp_path, *words), input=b"", capture_output=True, check=False, timeout=120)


def converse(
    tmp_path: pathlib.Path, *words: str, data: bytes, out: int, err: int = 0, end: bytes = b"\n"
) -> tuple[int, bytes, bytes]:
    """Run `tfdist shell` without a terminal; return its exit code and output.

    It gets `data`, and when `out` and `err` bytes of output have arrived, `end`: the kubelet of this test may cut off
    what a process has written last before it exits.
    """
    pipe, command = subprocess.PIPE, command_line(tmp_path, *words)
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with concurrent.futures.ThreadPoolExecutor() as executor:
            outputs = [executor.submit(process.stdout.read, out), executor.submit(process.stderr.read, err)]
            process.stdin.write(data)
            process.stdin.flush()
            stdout, stderr = (output.result(WAIT_SECONDS) for output in outputs)
        further_out, further_err = process.communicate(end, timeout=WAIT_SECONDS)
        return process.returncode, stdout + further_out, stderr + further_err


def test_a_command_has_the_input_and_output_of_a_local_one(
    node: StreamingNode, job: Json, tmp_path: pathlib.Path
) -> None:
    node.run_replica(job, "worker", 0)
    data = os.urandom(1_000_000)
    copy = f"head -c {len(data)}; read end"

    code, copied, err = converse(tmp_path, "fashion", "--", "sh", "-c", copy, data=data, out=len(data))
    assert (code, len(copied), copied == data, err) == (0, len(data), True, b"")
    both = "echo out; echo err >&2; read end"
    assert converse(tmp_path, "fashion", "worker-0", "--", "sh", "-c", both, data=b"", out=4, err=4) == (
        0, b"out\n", b"err\n",
    )  # fmt: skip
    script = converse(tmp_path, "fashion", data=b"echo from $((40 + 2))\n", out=8, end=b"exit\n")
    assert script[:2] == (0, b"from 42\n")


def test_a_command_that_cannot_be_started_is_one_line(node: StreamingNode, job: Json, tmp_path: pathlib.Path) -> None:
    node.run_replica(job, "worker", 0)

    ended = run_shell(tmp_path, "fashion", "--", "no-such-program")

    assert (ended.returncode, ended.stdout, ended.stderr.count(b"\n")) == (2, b"", 1)
    assert b"cannot run the command" in ended.stderr


def test_a_shell_on_a_terminal_has_its_size_and_leaves_it_as_it_was(
    node: StreamingNode, job: Json, tmp_path: pathlib.Path
) -> None:
    node.run_replica(job, "worker", 0)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
    before = termios.tcgetattr(theirs)
    command = [sys.executable, "-m", "tfdist.cli", "shell", "fashion", "--kubeconfig", str(tmp_path / "kubeconfig")]
    environment = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "LINES"}}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    seen = b""

    def shown(text: bytes) -> bool:
        nonlocal seen
        seen += os.read(ours, 65536)
        return text in seen

    os.write(ours, b"stty size; echo en''d\r")
    wait_for("the answer of the shell", lambda: shown(b"end\r"))
    os.write(ours, b"exit\r")
    wait_for("the end", lambda: process.poll() is not None)
    assert b"33 101" in seen
    assert process.returncode == 0
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
