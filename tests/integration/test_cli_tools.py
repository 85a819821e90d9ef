"""The commands that connect to pods, and those for trouble, with a real API server and the server of kubelets."""

import contextlib
import fcntl
import http.server
import json
import os
import pathlib
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import termios
import threading
import urllib.request
from collections.abc import Iterator

import pytest
from support.api import PODS, Api, Json
from support.command_user import CommandUser
from support.polling import wait_for
from support.streaming_kubelet import StreamingNode, streaming_node

from tfdist.contract import REPORT_PORT, Phase, Role
from tfdist.contract_reports import ProgressReport
from tfdist_trainer import report_server
from tfdist_trainer.reporter import Reporter

pytestmark = pytest.mark.integration

ECHO_PORT = 7000
PAGE = b"x" * 3_000_000


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@contextlib.contextmanager
def _echo() -> Iterator[int]:
    """Run a server that returns what it receives; yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                while data := connection.recv(65536):
                    connection.sendall(data)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]


@pytest.fixture(scope="module")
def node(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamingNode]:
    first = ProgressReport(role=Role.WORKER, index=0, attempt=0, phase=Phase.TRAINING)
    reports = report_server.serve(Reporter(first), 0)
    pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    with _echo() as echo:
        ports = {REPORT_PORT: reports.server_port, 6006: pages.server_port, ECHO_PORT: echo}
        with streaming_node(api, tmp_path_factory.mktemp("kubelet"), ports) as made:
            yield made


@pytest.fixture
def user(api: Api, namespace: str, tmp_path: pathlib.Path) -> CommandUser:
    return CommandUser(api, namespace, tmp_path)


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


def run_shell(tmp_path: pathlib.Path, *words: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """Run `tfdist shell` without a terminal."""
    command = [sys.executable, "-m", "tfdist.cli", "shell", "--kubeconfig", str(tmp_path / "kubeconfig"), *words]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=120)


# Once in a while the kubelet of this test ends the output early; tests/e2e/test_cli_tools.py has a real one.
@pytest.mark.long
def test_a_command_has_the_input_and_output_of_a_local_one(
    node: StreamingNode, job: Json, tmp_path: pathlib.Path
) -> None:
    node.run_replica(job, "worker", 0)
    data = os.urandom(1_000_000)

    copied = run_shell(tmp_path, "fashion", "--", "head", "-c", str(len(data)), stdin=data)
    both = run_shell(tmp_path, "fashion", "worker-0", "--", "sh", "-c", "echo out; echo err >&2")
    script = run_shell(tmp_path, "fashion", stdin=b"echo from $((40 + 2)); exit\n")

    assert (copied.returncode, len(copied.stdout), copied.stdout == data, copied.stderr) == (0, len(data), True, b"")
    assert (both.returncode, both.stdout, both.stderr) == (0, b"out\n", b"err\n")
    assert (script.returncode, script.stdout) == (0, b"from 42\n")


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


@pytest.mark.usefixtures("controller")
def test_the_doctor_finds_no_problem_for_a_user_with_the_role_edit(
    user: CommandUser, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert user.run("doctor", "-o", "json") == 0

    checks = {each["subject"]: each for each in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["CRD"]["result"] == "ok"
    assert checks["rights"]["message"] == f"every command is allowed in namespace {namespace}"
    assert (checks["namespace"]["result"], checks["quota"]["message"]) == ("ok", "none")
    assert {name for name, each in checks.items() if each["result"] == "unknown"} == {
        "controller", "storage", "GPUs", "DNS",
    }  # fmt: skip


def test_the_doctor_reports_to_a_user_with_the_role_view_what_is_not_allowed(
    api: Api, namespace: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    viewer = CommandUser(api, namespace, tmp_path, role="view")

    assert viewer.run("doctor") == 1

    lines = [line for line in capsys.readouterr().out.splitlines() if " rights: " in line]
    submit, *others = lines
    assert submit.startswith("problem  rights: submit, run: you may not create tfdistjobs, create configmaps, ")
    assert submit.endswith(f"; ask an administrator for the role edit in namespace {namespace}")
    assert [line.split(": ")[1] for line in others] == [
        "suspend, resume, restart, scale", "delete", "port-forward, tensorboard, stacks", "shell",
    ]  # fmt: skip
    assert all(line.startswith("warning") for line in others)


def test_the_doctor_names_a_quota_that_is_used_up(
    user: CommandUser, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}}}
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    api.do("POST", path, quota)
    wait_for("the quota's status", lambda: api.do("GET", f"{path}/small").get("status", {}).get("used"))

    user.run("doctor")

    assert "warning  quota: used up: pods 0 of 0; " in capsys.readouterr().out


@pytest.mark.usefixtures("controller")
def test_the_doctor_reports_the_problem_of_a_job_with_the_remedy(
    user: CommandUser, capsys: pytest.CaptureFixture[str]
) -> None:
    user.submit(training={"program": "image_classification", "config": {"unknown": 1}})
    assert user.run("wait", "fashion", "--timeout", "60s") == 1

    assert user.run("doctor", "fashion") == 1

    (line,) = [line for line in capsys.readouterr().out.splitlines() if "job fashion" in line]
    assert line.startswith("problem  job fashion: Invalid=True: InvalidSpec: ")
    assert "; correct the fields in the message" in line


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
