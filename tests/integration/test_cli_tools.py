"""The commands that connect to pods, and those for trouble, with a real API server and the server of kubelets."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import urllib.request
from collections.abc import Iterator

import pytest
from support.api import PODS, Api, Json
from support.command_user import CommandUser
from support.polling import wait_for
from support.replica_node import ECHO_PORT, PAGE
from support.streaming_kubelet import StreamingNode

pytestmark = pytest.mark.integration


@pytest.fixture
def job(user: CommandUser, api: Api, namespace: str) -> Json:
    user.submit()
    return api.job(namespace, "fashion")


@contextlib.contextmanager
def started(tmp_path: pathlib.Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Run the command as a process, which is killed at the end of the block."""
    command = [sys.executable, "-m", "tfdist.cli", *arguments, "--kubeconfig", str(tmp_path / "kubeconfig")]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **streams) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


def local_port(process: "subprocess.Popen[str]") -> int:
    """Return the local port in the next line that the command prints."""
    assert process.stdout
    printed = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
    assert printed
    return int(printed[1])


def interrupted(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Send Ctrl-C and return the exit code and the messages."""
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    return process.returncode, messages


def exchanged(port: int, data: bytes) -> bytes:
    """Return what a port answers; the sender closes its direction only after the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        writing = threading.Thread(target=connection.sendall, args=(data,))
        writing.start()
        answer = b""
        while len(answer) < len(data) and (part := connection.recv(65536)):
            answer += part
        writing.join()
    return answer


def test_ports_are_forwarded_to_the_leader_by_several_connections_at_a_time(
    node: StreamingNode, job: Json, tmp_path: pathlib.Path
) -> None:
    node.run_replica(job, "worker", 0)
    data = os.urandom(2_000_000)
    with started(tmp_path, "port-forward", "fashion", f":{ECHO_PORT}") as process:
        port = local_port(process)

        idle = socket.create_connection(("127.0.0.1", port), timeout=60)
        answers: list[bytes] = []
        senders = [threading.Thread(target=lambda: answers.append(exchanged(port, data))) for _ in range(4)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(60)
        idle.sendall(b"still open")
        assert idle.recv(100) == b"still open"

        assert answers == [data] * 4
        assert interrupted(process)[0] == 0


def test_a_forwarded_replica_that_is_restarted_is_found_again(
    node: StreamingNode, job: Json, api: Api, namespace: str, tmp_path: pathlib.Path
) -> None:
    first = node.run_replica(job, "worker", 1)
    with started(tmp_path, "port-forward", "fashion", "worker-1", f":{ECHO_PORT}") as process:
        port = local_port(process)
        assert exchanged(port, b"first") == b"first"

        path = f"{PODS.format(ns=namespace)}/{first['metadata']['name']}"
        api.do("DELETE", path, {"gracePeriodSeconds": 0})
        wait_for("the pod to be deleted", lambda: api.send("GET", path).status_code == 404)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as between:
            assert between.recv(1) == b""
        node.run_replica(job, "worker", 1, attempt=1)

        assert exchanged(port, b"second") == b"second"
        code, messages = interrupted(process)
    assert code == 0
    assert "worker-1 of fashion has no pod" in messages


def test_a_port_of_a_pod_without_a_listener_is_one_line_and_the_command_continues(
    node: StreamingNode, job: Json, tmp_path: pathlib.Path
) -> None:
    node.run_replica(job, "worker", 0)
    with started(tmp_path, "port-forward", "fashion", ":7999", f":{ECHO_PORT}") as process:
        closed, port = local_port(process), local_port(process)
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", closed), timeout=60) as connection:
                assert connection.recv(1) == b""
        assert exchanged(port, b"x") == b"x"
        code, messages = interrupted(process)
    assert code == 0
    assert messages.count("worker-0, port 7999: connection refused: nothing listens there") == 1


def test_tensorboard_is_printed_once_it_answers(
    node: StreamingNode, user: CommandUser, api: Api, namespace: str, tmp_path: pathlib.Path
) -> None:
    user.submit(tensorBoard={"logDirectory": "/logs"})
    job = api.job(namespace, "fashion")
    with started(tmp_path, "tensorboard", "fashion") as process:
        assert process.stderr
        assert "has no pod yet" in process.stderr.readline()
        labels = {"tfdist.dev/tensorboard": job["metadata"]["uid"]}
        node.run_pod(job, "fashion-tensorboard-5c9d-x2v4z", "tensorboard", labels)

        port = local_port(process)

        with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=60) as answer:
            assert answer.read() == PAGE
        assert interrupted(process)[0] == 0


def test_stacks_are_those_of_each_replica_that_serves_them(
    node: StreamingNode, job: Json, user: CommandUser, capsys: pytest.CaptureFixture[str]
) -> None:
    node.run_replica(job, "worker", 0)
    node.run_replica(job, "worker", 1)

    assert user.run("stacks", "fashion") == 0

    out = capsys.readouterr().out
    assert [line.split(" (")[0] for line in out.splitlines() if line.startswith("==")] == ["== worker-0", "== worker-1"]
    assert "test_stacks_are_those_of_each_replica_that_serves_them" in out


def test_a_report_has_the_job_and_its_pods_without_secrets(
    node: StreamingNode,
    user: CommandUser,
    api: Api,
    namespace: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    user.submit(env=[{"name": "WANDB_API_KEY", "value": "abc123def456"}])
    node.run_replica(api.job(namespace, "fashion"), "worker", 0)
    target = tmp_path / "r.tar.gz"

    assert user.run("report", "fashion", "-o", str(target)) == 0

    out, err = capsys.readouterr()
    assert (out, "1 value masked, 1 part could not be read" in err) == (f"{target}\n", True)
    with tarfile.open(target) as archive:
        files = {member.name: _content(archive, member) for member in archive}
    assert set(files) == {f"r/{name}" for name in ("job.json", "pods.json", "events.json", "doctor.json",
                                                    "versions.json", "contents.txt")}  # fmt: skip
    assert json.loads(files["r/job.json"])["spec"]["env"] == [{"name": "WANDB_API_KEY", "value": "***"}]
    assert [pod["metadata"]["name"] for pod in json.loads(files["r/pods.json"])] == ["fashion-worker-0"]
    assert not any(b"abc123def456" in content for content in files.values())
    assert b"WANDB_API_KEY" in files["r/contents.txt"]
    assert b"logs/fashion-worker-0.tensorflow.log: " in files["r/contents.txt"]
    assert user.run("report", "fashion", "-o", str(target)) == 2
    assert capsys.readouterr().err == f"{target}: exists already; choose another file by --output\n"


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    found = archive.extractfile(member)
    assert found
    return found.read()


@pytest.mark.parametrize("command", [["stacks"], ["shell"], ["report"], ["doctor"], ["tensorboard"]])
def test_a_job_that_does_not_exist_is_one_line(
    command: list[str], user: CommandUser, capsys: pytest.CaptureFixture[str]
) -> None:
    assert user.run(*command, "nothing") == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), '"nothing" not found' in err) == ("", 1, True)


def test_a_replica_that_does_not_run_is_one_line_with_its_state(
    user: CommandUser, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    user.submit()
    assert user.run("shell", "fashion") == 2
    assert capsys.readouterr().err == "worker-0 of fashion has no pod: the job is Pending\n"
    assert user.run("tensorboard", "fashion") == 2
    assert f"kubectl patch tfdistjob fashion -n {namespace}" in capsys.readouterr().err
