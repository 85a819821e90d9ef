"""The rendezvous before TensorFlow connects the members: missing members are named, and SIGTERM is handled."""

import json
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.polling import WAIT_SECONDS
from support.ports import free_ports

from tfdist.contract import LaunchSettings, Phase, ReplicaJob, Role
from tfdist_trainer.environment import GangMember
from tfdist_trainer.errors import PeerLostError
from tfdist_trainer.strategies.rendezvous import wait_for_members

if TYPE_CHECKING:
    from trainer.replicas import Launch


Join = Callable[[GangMember], Future[list[list[str]]]]


def member(rank: int, addresses: tuple[str, ...], attempt: int = 0) -> GangMember:
    job = ReplicaJob(
        name="t",
        namespace="d",
        uid="u",
        strategy="MultiWorkerMirrored",
        role=Role.WORKER,
        index=rank,
        replicas={"worker": len(addresses)},
        attempt=attempt,
    )
    return GangMember(job=job, rank=rank, size=len(addresses), addresses=addresses)


@pytest.fixture
def addresses() -> tuple[str, ...]:
    return tuple(f"127.0.0.1:{port}" for port in free_ports(3))


@pytest.fixture
def join() -> Any:
    """A function that starts the rendezvous of a member; its result is the reports of missing members."""
    pool = ThreadPoolExecutor(8)

    def start(one: GangMember) -> Future[list[list[str]]]:
        reports: list[list[str]] = []

        def run() -> list[list[str]]:
            wait_for_members(one, reports.append, timeout_seconds=WAIT_SECONDS)
            return reports

        return pool.submit(run)

    yield start
    pool.shutdown(wait=False, cancel_futures=True)


@pytest.fixture
def tensorflow_at() -> Any:
    """A function that listens at an address, as TensorFlow does after the rendezvous, and sends its greeting."""
    sockets: list[socket.socket] = []

    def listen(address: str, greeting: bytes = b"") -> None:
        listener = socket.create_server(("127.0.0.1", int(address.rpartition(":")[2])))
        sockets.append(listener)

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                sockets.append(connection)
                connection.sendall(greeting)

        threading.Thread(target=accept, daemon=True).start()

    yield listen
    for item in sockets:
        item.close()


def connect(address: str) -> socket.socket:
    """Return a connection to `address`, once a server listens there."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            return socket.create_connection((host, int(port)), WAIT_SECONDS)
        except ConnectionRefusedError:
            continue


def test_the_leader_returns_when_all_are_connected_and_the_others_when_its_tensorflow_listens(
    addresses: tuple[str, ...], join: Join, tensorflow_at: Any
) -> None:
    followers = [join(member(2, addresses))]
    leader = join(member(0, addresses))
    assert not leader.done()
    followers.append(join(member(1, addresses)))
    leader.result(WAIT_SECONDS)
    tensorflow_at(addresses[0])
    for follower in followers:
        assert follower.result(WAIT_SECONDS)[-1] == [], "in the end no member is missing"


def test_a_member_that_disconnects_early_is_waited_for_again(
    addresses: tuple[str, ...], join: Join, tensorflow_at: Any
) -> None:
    leader = join(member(0, addresses))
    with connect(addresses[0]) as gone:
        gone.sendall(b'{"job": "u", "task": "Train", "attempt": 0, "round": 0, "rank": 1}\n')
    other = join(member(2, addresses))
    assert not leader.done()
    back = join(member(1, addresses))
    leader.result(WAIT_SECONDS)
    tensorflow_at(addresses[0])
    other.result(WAIT_SECONDS)
    back.result(WAIT_SECONDS)


def test_under_launchers_a_replica_that_was_replaced_alone_connects_to_those_of_earlier_attempts(
    addresses: tuple[str, ...], join: Join, tensorflow_at: Any
) -> None:
    launched = LaunchSettings(leader="w:1", rank=1)
    attempts = (0, 1, 0)
    members = [member(rank, addresses, attempt) for rank, attempt in enumerate(attempts)]
    gang = [join(replace(one, job=one.job.model_copy(update={"launch": launched}))) for one in members]
    gang[0].result(WAIT_SECONDS)
    tensorflow_at(addresses[0])
    for one in gang[1:]:
        one.result(WAIT_SECONDS)


def test_members_of_another_start_and_strangers_are_rejected(
    addresses: tuple[str, ...], join: Join, tensorflow_at: Any
) -> None:
    leader = join(member(0, addresses))
    greeting = {"job": "u", "task": "Train", "attempt": 0, "round": 0, "rank": 1}
    others = [json.dumps(greeting | other).encode() + b"\n" for other in ({"attempt": 9}, {"round": 1}, {"rank": 7})]
    for stranger in (*others, b"GET / HTTP/1.1\r\n\r\n\n", b"x" * 5000):
        with connect(addresses[0]) as connection:
            connection.sendall(stranger)
            assert connection.recv(100) == b""
    assert not leader.done()
    followers = [join(member(rank, addresses)) for rank in (1, 2)]
    leader.result(WAIT_SECONDS)
    tensorflow_at(addresses[0])
    for follower in followers:
        follower.result(WAIT_SECONDS)


def test_a_member_skips_the_rendezvous_that_its_peers_have_passed(
    addresses: tuple[str, ...], join: Join, tensorflow_at: Any
) -> None:
    leader = join(member(0, addresses))
    with connect(addresses[0]) as joining:
        joining.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        leader.result(WAIT_SECONDS)
    tensorflow_at(addresses[0], greeting=b"\0\0\x12\4\0\0\0\0\0")
    join(member(1, addresses)).result(WAIT_SECONDS)


def test_a_timeout_names_the_missing_members(addresses: tuple[str, ...]) -> None:
    for rank, missing in ((0, f"{addresses[1]}, {addresses[2]}"), (1, addresses[0])):
        with pytest.raises(PeerLostError, match=f"waited too long for {missing} to come"):
            wait_for_members(member(rank, addresses), lambda _: None, timeout_seconds=0.2)


@pytest.mark.trainer
def test_sigterm_while_others_are_missing_ends_a_member_at_once_and_they_wait_for_its_successor(
    launch: "Launch", config: dict[str, Any], tmp_path: Path
) -> None:
    job = {"checkpoint": {"directory": str(tmp_path)}}
    gang = launch(2, config=config, job=job, absent=(1,))
    waiting = gang.progress_when(lambda report: bool(report.waiting_for))
    assert (waiting.phase, waiting.waiting_for) == (Phase.RENDEZVOUS, [gang.addresses[1]])
    assert f"waiting for {gang.addresses[1]} to connect" in gang.output()
    gang.processes[0].send_signal(signal.SIGTERM)
    assert gang.processes[0].wait(WAIT_SECONDS) == 128 + signal.SIGTERM
    assert gang.termination().reason == "Terminated"

    gang.start(1)
    gang.progress_when(lambda report: bool(report.waiting_for), index=1)
    gang.start(0)
    assert gang.wait() == [0, 0], gang.output() + gang.output(1)
