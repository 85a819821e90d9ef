"""The parts of the commands for connections and trouble that need no cluster."""

import os
import socket
import threading
from typing import Any, cast

import pytest
from support.stored_jobs import FAILED, NEW, RUNNING, UNSCHEDULABLE, stored

from tfdist.cli.commands import port_forward
from tfdist.cli.errors import CommandError
from tfdist.client import doctor, websocket
from tfdist.client import exec as process
from tfdist.client.client import Client
from tfdist.client.doctor import Result, check_job
from tfdist.client.errors import NotPossible
from tfdist.client.job import Job
from tfdist.client.port_forward import PortForward, copy
from tfdist.client.replica_pods import ReplicaPod, is_replica, leader

Json = dict[str, Any]


def pod(**status: Any) -> ReplicaPod:
    metadata = {"name": "fashion-worker-0", "namespace": "team"}
    spec = {"containers": [{"name": "tensorflow"}, {"name": "sidecar"}]}
    return ReplicaPod("worker-0", {"metadata": metadata, "spec": spec, "status": status})


def container(name: str = "tensorflow", **state: Any) -> Json:
    return {"name": name, "state": state}


# Ports


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["8790"], (None, [(8790, 8790)])),
        (["worker-1", "9000:8790"], ("worker-1", [(9000, 8790)])),
        ([":8790", "0:22"], (None, [(0, 8790), (0, 22)])),
    ],
)
def test_ports_are_those_of_kubectl(words: list[str], expected: object) -> None:
    assert port_forward.parse(words) == expected


@pytest.mark.parametrize(
    "words", [[], ["worker-1"], ["worker"], ["0"], ["1:0"], ["65536"], ["a:1"], ["1:2:3"], ["\u0663"]]
)
def test_what_is_no_port_is_named_with_an_example(words: list[str]) -> None:
    with pytest.raises(CommandError, match="8790"):
        port_forward.parse(words)


def test_a_local_port_in_use_is_named_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(NotPossible, match=rf"port {number} of 127\.0\.0\.1 cannot be used .*or 0 for a free one"):
            PortForward(None, pod, 1, number)  # type: ignore[arg-type]


class Remote:
    """A WebSocket whose other end is a socket: each message in has one byte of channel, and so has each out."""

    def __init__(self, *messages: bytes) -> None:
        self.sock, self.peer = socket.socketpair()
        self._messages = [*messages]
        self.sent: list[bytes] = []
        self.peer.sendall(b"." * len(messages))

    def recv_data_frame(self, control_frame: bool) -> tuple[int, Any]:
        assert control_frame
        if not self.sock.recv(1):
            return 8, None
        frame = type("Frame", (), {"data": self._messages.pop(0)})
        return 2, frame

    def send_binary(self, data: bytes) -> None:
        self.sent.append(data)

    def close(self, **_: object) -> None:
        self.sock.close()


def test_bytes_are_copied_in_both_directions_until_the_pod_closes() -> None:
    ours, theirs = socket.socketpair()
    remote = Remote(b"\0\x16\x17", b"\1\x16\x17", b"\0first ", b"\0second")
    copying = threading.Thread(target=copy, args=(theirs, remote))
    ours.sendall(b"request")
    copying.start()

    assert ours.recv(6, socket.MSG_WAITALL) == b"first "
    assert ours.recv(6, socket.MSG_WAITALL) == b"second"
    remote.peer.close()
    copying.join(60)

    assert not copying.is_alive()
    assert remote.sent == [b"\0request"]


def test_the_error_of_a_kubelet_is_without_the_calls_before_its_cause() -> None:
    _, theirs = socket.socketpair()
    text = b"error forwarding port 6006 to pod 5f, uid : dial tcp4 127.0.0.1:6006: connect: connection refused\n"
    remote = Remote(b"\0\x16\x17", b"\1\x16\x17", b"\1" + text)
    remote.peer.close()

    assert copy(theirs, remote) == "connection refused: nothing listens there"


# Replicas


def test_the_leader_is_the_chief_or_worker_0() -> None:
    assert leader(RUNNING) == "worker-0"
    assert leader(stored("fashion", {}, chief={})) == "chief-0"


@pytest.mark.parametrize(
    ("word", "expected"),
    [("worker-1", True), ("ps-0", True), ("worker", False), ("job-1", False), ("worker-01", False)],
)
def test_a_replica_is_a_role_with_an_index(word: str, *, expected: bool) -> None:
    assert is_replica(word) == expected


UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}


@pytest.mark.parametrize(
    ("phase", "containers", "runs", "state"),
    [
        ("Running", [container(running={})], True, "Running"),
        ("Pending", [container(waiting={"reason": "ErrImagePull", "message": "no\nsuch"})], False,
         "Pending: ErrImagePull: no such"),
        ("Running", [container("sidecar", running={}), container(terminated={"exitCode": 1})], False,
         "Running: exit code 1"),
        ("Pending", [], False, "Pending: Unschedulable: 0/2 nodes"),
    ],
)  # fmt: skip
def test_the_state_of_a_replica_is_that_of_its_container(
    phase: str, containers: list[Json], state: str, *, runs: bool
) -> None:
    conditions = [] if containers else [UNSCHEDULED]
    found = pod(phase=phase, containerStatuses=containers, conditions=conditions)
    assert (found.is_running, found.state) == (runs, state)


# Commands in a container


def test_the_exit_code_is_that_of_the_command() -> None:
    causes = [{"reason": "ExitCode", "message": "7"}]
    failed = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}

    assert process.exit_code({"status": "Success"}, pod()) == 0
    assert process.exit_code(failed, pod()) == 7


def test_a_command_that_was_not_started_is_an_error_with_the_reason() -> None:
    status = {"status": "Failure", "reason": "InternalError", "message": 'exec: "sh":\nno such file \x1b[2J'}

    with pytest.raises(NotPossible, match=r'worker-0 \(pod fashion-worker-0\) cannot run the command: exec: "sh": no '):
        process.exit_code(status, pod())


class Process:
    """A connection to a process that ends with code 0 when its input is closed."""

    def __init__(self) -> None:
        self.ours, peer = socket.socketpair()
        self.sock, self.peer = type("WebSocket", (), {"sock": self.ours}), peer
        self.calls: list[object] = []
        self._result = b""

    def is_open(self) -> bool:
        return not self._result

    def update(self, timeout: float) -> None: ...

    def read_channel(self, channel: int) -> bytes:
        return self._result if channel == 3 else b""

    def write_channel(self, channel: int, data: bytes) -> None:
        self.calls.append((channel, data))

    def close_channel(self, channel: int) -> None:
        self.calls.append(channel)
        self._result = b'{"status": "Success"}'

    def close(self, **_: object) -> None: ...


def test_the_end_of_the_input_and_the_size_of_the_terminal_reach_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Process()
    monkeypatch.setattr(websocket, "open_exec", lambda *_: connection)
    ours, theirs = os.pipe()
    os.write(theirs, b"input")
    os.close(theirs)

    streams = process.Streams(ours, print, print, size=lambda: (101, 33))
    assert process.run(None, pod(), ["cat"], streams) == 0  # type: ignore[arg-type]

    assert connection.calls == [(4, b'{"Width": 101, "Height": 33}'), (0, b"input"), 0]
    os.close(ours)


# Doctor


def test_the_findings_of_a_job_are_those_of_its_conditions_with_the_remedy() -> None:
    (failed,) = check_job(FAILED)
    (unschedulable,) = check_job(UNSCHEDULABLE)

    assert (failed.result, failed.message.split(": ")[:2]) == (Result.PROBLEM, ["Failed=True", "RepeatedError"])
    assert failed.remedy.startswith("correct the error in the message")
    assert (unschedulable.result, unschedulable.message.split(": ")[1]) == (Result.PROBLEM, "Unschedulable")


def test_a_job_that_runs_has_no_findings() -> None:
    (found,) = check_job(RUNNING)
    assert (found.result, found.message) == (Result.OK, "Running: all 3 replicas run; chief-0 leads")


def test_a_job_without_a_status_for_long_has_no_controller() -> None:
    old = stored("old", {"observedGeneration": None}, age=10**9)
    (found,) = check_job(old)
    assert (found.result, "no controller" in found.message) == (Result.PROBLEM, True)
    assert NEW.phase == "Pending"


@pytest.mark.parametrize(
    ("run_policy", "result"),
    [({"managedBy": "example.com/other"}, Result.UNKNOWN), ({}, Result.PROBLEM), (None, Result.PROBLEM)],
)
def test_a_job_without_a_status_is_a_problem_unless_another_controller_manages_it(
    run_policy: Json | None, result: Result
) -> None:
    metadata = {"name": "fashion", "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z"}
    stored = Job({"metadata": metadata, "spec": {"worker": {"replicas": 1}, "runPolicy": run_policy}})

    class Jobs:
        def list(self) -> list[Job]:
            return [stored]

    assert doctor._controller_by_jobs(cast("Client", Jobs())).result is result
