"""The rendezvous of a gang's members before TensorFlow connects them.

TensorFlow does not report which members are missing while it connects them, so the members connect to each other
first. The leader, rank 0, listens at its own TensorFlow address, which is not in use yet. The others connect to it and
send their rank; when all are connected, the leader sends an acknowledgement and leaves the address to TensorFlow.

The rendezvous is best-effort and never blocks a member whose peers have passed it. A member that finds TensorFlow
already listening at the leader's address skips it; a leader that receives a gRPC connection ends it.
"""

import contextlib
import json
import selectors
import socket
import time
from collections.abc import Callable
from typing import Final

from tfdist_trainer import log
from tfdist_trainer.environment import GangMember
from tfdist_trainer.errors import PeerLostError
from tfdist_trainer.strategies.peers import REPEAT_SECONDS, is_listening, retry_delays

TIMEOUT_SECONDS: Final = 1800.0
"""Longer than the pull of an image: the pods of the others have addresses before they run."""

HANDOVER_SECONDS: Final = 20.0
"""How long a member waits for the leader's TensorFlow after the rendezvous, before its own TensorFlow waits for it."""

ALL_CONNECTED: Final = b"tfdist all here\n"
_TENSORFLOW: Final = b"PRI "
"""First bytes of a gRPC connection: the client preface of HTTP/2 (RFC 9113, 3.4)."""
_LINE_BYTES: Final = 4096
_POLL_SECONDS: Final = 0.5
"""How long a member blocks on its sockets before it checks the deadline."""

ReportMissing = Callable[[list[str]], None]
"""Called every ten seconds with the addresses of the missing members, and at the end with an empty list."""


def wait_for_members(
    member: GangMember, report_missing: ReportMissing, *, timeout_seconds: float = TIMEOUT_SECONDS
) -> None:
    """Return when all members of the gang are connected.

    Raises:
        PeerLostError: after `timeout_seconds`, with the addresses of the missing members.
    """
    started_at = time.monotonic()
    wait = RendezvousDeadline(report_missing, started_at + timeout_seconds)
    if member.is_chief:
        RendezvousServer(member, wait).run()
    else:
        _join_leader(member, wait)
    report_missing([])
    log.event("rendezvous-complete", members=member.size, seconds=time.monotonic() - started_at)


class RendezvousDeadline:
    """Reports the missing members periodically, and enforces the deadline of the rendezvous."""

    def __init__(self, report_missing: ReportMissing, deadline: float) -> None:
        self._report_missing = report_missing
        self._deadline = deadline
        self._next = time.monotonic() + 1.0

    def check(self, missing: list[str]) -> None:
        """Report the addresses `missing` if a report is due.

        Raises:
            PeerLostError: the deadline has passed.
        """
        now = time.monotonic()
        if now > self._deadline:
            raise PeerLostError(f"waited too long for {', '.join(missing)} to come: are their pods running?")
        if now >= self._next:
            self._next = now + REPEAT_SECONDS
            self._report_missing(missing)


class RendezvousServer:
    """The leader's side of the rendezvous."""

    def __init__(self, member: GangMember, wait: RendezvousDeadline) -> None:
        self._member = member
        self._wait = wait
        self._received: dict[socket.socket, bytes] = {}
        """The bytes received so far on each open connection."""
        self._connected: dict[int, socket.socket] = {}
        """The connection of each member that has sent its rank."""
        self._tensorflow_connected = False

    def run(self) -> None:
        """Wait until all other members are connected, and acknowledge it to them."""
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(_listener(self._member.addresses[0], self._wait))
            selector = stack.enter_context(selectors.DefaultSelector())
            selector.register(listener, selectors.EVENT_READ)
            while missing := self._missing_members():
                self._wait.check(missing)
                for key, _ in selector.select(_POLL_SECONDS):
                    if key.fileobj is listener:
                        connection, _ = listener.accept()
                        connection.setblocking(False)
                        self._received[connection] = b""
                        selector.register(connection, selectors.EVENT_READ)
                    elif isinstance(key.fileobj, socket.socket) and not self._receive(key.fileobj):
                        selector.unregister(key.fileobj)
                        key.fileobj.close()
        # The listener is closed by now: the acknowledgement makes the others wait for TensorFlow at this address.
        for connection in self._received:
            with contextlib.suppress(OSError):
                connection.sendall(ALL_CONNECTED)
            connection.close()

    def _missing_members(self) -> list[str]:
        if self._tensorflow_connected:
            return []
        others = range(1, self._member.size)
        return [self._member.addresses[rank] for rank in others if rank not in self._connected]

    def _receive(self, connection: socket.socket) -> bool:
        """Read from `connection`; return whether it stays open."""
        try:
            content = connection.recv(_LINE_BYTES)
        except OSError:
            content = b""
        received = self._received[connection] = self._received[connection] + content
        # A member has passed the rendezvous already: never block it (ADR 11).
        if received.startswith(_TENSORFLOW):
            self._tensorflow_connected = True
        rank = _rank(received, self._member)
        # Closed, not of this gang, or of no more use.
        if not content or len(received) > _LINE_BYTES or self._tensorflow_connected or rank == 0:
            self._received.pop(connection)
            self._connected = {rank: other for rank, other in self._connected.items() if other is not connection}
            return False
        if rank is not None:
            self._connected[rank] = connection
        return True


def _rank(received: bytes, member: GangMember) -> int | None:
    """Return the rank in a received greeting; None while it is incomplete, 0 if it is not of a member of this gang."""
    if not received.endswith(b"\n"):
        return None
    try:
        greeting = json.loads(received)
        rank = int(greeting["rank"])
    except (ValueError, KeyError, TypeError):
        return 0
    return rank if greeting == json.loads(_greeting(member, rank)) and 0 < rank < member.size else 0


def _greeting(member: GangMember, rank: int) -> bytes:
    """Return the greeting of the member with `rank` in this start of the gang.

    Under launchers the round alone identifies the start: a pod that was replaced alone is of a later attempt than the
    others.
    """
    job = member.job
    attempt = None if job.launch else job.attempt
    return (
        json.dumps({"job": job.uid, "task": job.task, "attempt": attempt, "round": member.round, "rank": rank}).encode()
        + b"\n"
    )


def _listener(address: str, wait: RendezvousDeadline) -> socket.socket:
    """Return a socket that listens at `address` on all interfaces, once a terminating process has released it."""
    endpoint = ("", int(address.rpartition(":")[2]))
    pause = retry_delays()
    while True:
        if socket.has_dualstack_ipv6():
            with contextlib.suppress(OSError):
                return socket.create_server(endpoint, family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True)
        with contextlib.suppress(OSError):
            return socket.create_server(endpoint, backlog=1024)
        # The process of the round before may still be terminating.
        wait.check([f"{address}, which another process of this replica uses,"])
        time.sleep(next(pause))


def _join_leader(member: GangMember, wait: RendezvousDeadline) -> None:
    """Connect to the leader and wait for the end of the rendezvous."""
    leader = member.addresses[0]
    host, _, port = leader.rpartition(":")
    pause = retry_delays()
    response = b""
    while not response:
        with contextlib.suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), 2.0) as connection:
            connection.sendall(_greeting(member, member.rank))
            response = _receive_response(connection, wait, leader)
        if not response:
            wait.check([leader])
            time.sleep(next(pause))
    # Anything but the acknowledgement comes from the leader's TensorFlow, which listens already.
    if response == ALL_CONNECTED:
        _await_tensorflow(leader)


def _receive_response(connection: socket.socket, wait: RendezvousDeadline, leader: str) -> bytes:
    """Return the first bytes that the leader sends; none when it disconnects."""
    connection.settimeout(_POLL_SECONDS)
    while True:
        try:
            return connection.recv(len(ALL_CONNECTED))
        except TimeoutError:
            wait.check([f"the members that {leader} waits for"])


def _await_tensorflow(leader: str) -> None:
    """Wait until the leader's TensorFlow listens: gRPC retries a failed connection only after a second."""
    deadline = time.monotonic() + HANDOVER_SECONDS
    pause = retry_delays()
    while not is_listening(leader) and time.monotonic() < deadline:
        time.sleep(next(pause))
