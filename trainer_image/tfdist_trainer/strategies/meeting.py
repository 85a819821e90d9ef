"""Has the members of a gang meet before TensorFlow connects them.

TensorFlow's connecting says of nobody that it is missing. So the members come together here first. The leader,
rank 0, listens at its own TensorFlow address, which nobody else needs yet; the others connect to it, say who they are,
and are told when all are there. Then TensorFlow takes the address over.

It only makes waiting better, and is never waited for by somebody who has passed it: who finds TensorFlow already at
the leader's address joins, as without a meeting; and a leader who hears TensorFlow knock ends the meeting.
"""

import contextlib
import json
import selectors
import socket
import time
from collections.abc import Callable
from typing import Final

from tfdist_trainer import log
from tfdist_trainer.environment import Member
from tfdist_trainer.errors import PeerLostError
from tfdist_trainer.strategies.names import REPEAT_SECONDS, listens, pauses

TIMEOUT_SECONDS: Final = 1800.0
"""Longer than an image takes to be pulled: the others' pods have addresses before they run."""

HANDOVER_SECONDS: Final = 20.0
"""How long a member waits for the leader's TensorFlow after the meeting, before its own waits for it."""

ALL_HERE: Final = b"tfdist all here\n"
_TENSORFLOW: Final = b"PRI "
"""Begins what a gRPC client says (RFC 9113, 3.4)."""
_LINE_BYTES: Final = 4096
_SILENCE_SECONDS: Final = 0.5
"""How long a member listens before it looks whether it has waited too long."""

Say = Callable[[list[str]], None]
"""Told, every ten seconds, the addresses of those that are missing; and with an empty list that nobody is."""


def meet(member: Member, say: Say, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
    """Return when all members of the gang are here.

    Raises:
        PeerLostError: after `timeout_seconds`, with the addresses of those that are not.
    """
    started = time.monotonic()
    waiting = Waiting(say, started + timeout_seconds)
    if member.is_chief:
        Leader(member, waiting).meet()
    else:
        _follow(member, waiting)
    say([])
    log.event("met", members=member.size, seconds=time.monotonic() - started)


class Waiting:
    """Says now and then who is missing, and ends a wait that has become too long."""

    def __init__(self, say: Say, deadline: float) -> None:
        self._say = say
        self._deadline = deadline
        self._next = time.monotonic() + 1.0

    def for_(self, missing: list[str]) -> None:
        """Take note that `missing` are not here.

        Raises:
            PeerLostError: it has become too long.
        """
        now = time.monotonic()
        if now > self._deadline:
            raise PeerLostError(f"waited too long for {', '.join(missing)} to come: are their pods running?")
        if now >= self._next:
            self._next = now + REPEAT_SECONDS
            self._say(missing)


class Leader:
    """The meeting as rank 0 holds it."""

    def __init__(self, member: Member, waiting: Waiting) -> None:
        self._member = member
        self._waiting = waiting
        self._guests: dict[socket.socket, bytes] = {}
        """What each connection has said so far."""
        self._here: dict[int, socket.socket] = {}
        self._knocked = False

    def meet(self) -> None:
        """Wait until all others are here, and tell them so."""
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(_listener(self._member.addresses[0], self._waiting))
            selector = stack.enter_context(selectors.DefaultSelector())
            selector.register(listener, selectors.EVENT_READ)
            while missing := self._missing():
                self._waiting.for_(missing)
                for key, _ in selector.select(_SILENCE_SECONDS):
                    if key.fileobj is listener:
                        guest, _ = listener.accept()
                        guest.setblocking(False)
                        self._guests[guest] = b""
                        selector.register(guest, selectors.EVENT_READ)
                    elif isinstance(key.fileobj, socket.socket) and not self._hear(key.fileobj):
                        selector.unregister(key.fileobj)
                        key.fileobj.close()
        # The address is free before anybody is told to look for TensorFlow there.
        for guest in self._guests:
            with contextlib.suppress(OSError):
                guest.sendall(ALL_HERE)
            guest.close()

    def _missing(self) -> list[str]:
        if self._knocked:
            return []
        others = range(1, self._member.size)
        return [self._member.addresses[rank] for rank in others if rank not in self._here]

    def _hear(self, guest: socket.socket) -> bool:
        """Take in what `guest` says; return whether it stays."""
        try:
            said = guest.recv(_LINE_BYTES)
        except OSError:
            said = b""
        heard = self._guests[guest] = self._guests[guest] + said
        if heard.startswith(_TENSORFLOW):
            self._knocked = True
        rank = _rank(heard, self._member)
        if not said or len(heard) > _LINE_BYTES or self._knocked or rank == 0:
            self._guests.pop(guest)
            self._here = {rank: other for rank, other in self._here.items() if other is not guest}
            return False
        if rank is not None:
            self._here[rank] = guest
        return True


def _rank(heard: bytes, member: Member) -> int | None:
    """Return the rank that a guest says it has; None while it has not said all, 0 when it is not of this gang."""
    if not heard.endswith(b"\n"):
        return None
    try:
        told = json.loads(heard)
        rank = int(told["rank"])
    except (ValueError, KeyError, TypeError):
        return 0
    return rank if told == json.loads(_greeting(member, rank)) and 0 < rank < member.size else 0


def _greeting(member: Member, rank: int) -> bytes:
    """Return what a member of this start of the gang says.

    Under launchers the round alone tells one start from another: a pod that was replaced alone is of a later attempt
    than the others.
    """
    job = member.job
    attempt = None if job.launch else job.attempt
    return (
        json.dumps({"job": job.uid, "task": job.task, "attempt": attempt, "round": member.round, "rank": rank}).encode()
        + b"\n"
    )


def _listener(address: str, waiting: Waiting) -> socket.socket:
    """Return a socket that listens at `address` on all interfaces, once a process that is ending has left it."""
    place = ("", int(address.rpartition(":")[2]))
    pause = pauses()
    while True:
        if socket.has_dualstack_ipv6():
            with contextlib.suppress(OSError):
                return socket.create_server(place, family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True)
        with contextlib.suppress(OSError):
            return socket.create_server(place, backlog=1024)
        waiting.for_([f"{address}, which another process of this replica uses,"])
        time.sleep(next(pause))


def _follow(member: Member, waiting: Waiting) -> None:
    """Come to the leader's meeting and wait for its end."""
    leader = member.addresses[0]
    host, _, port = leader.rpartition(":")
    pause = pauses()
    answer = b""
    while not answer:
        with contextlib.suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), 2.0) as connection:
            connection.sendall(_greeting(member, member.rank))
            answer = _answer(connection, waiting, leader)
        if not answer:
            waiting.for_([leader])
            time.sleep(next(pause))
    # Anything else than the leader's word comes from TensorFlow, which is there already.
    if answer == ALL_HERE:
        _await_tensorflow(leader)


def _answer(connection: socket.socket, waiting: Waiting, leader: str) -> bytes:
    """Return what the leader says; nothing when it hangs up."""
    connection.settimeout(_SILENCE_SECONDS)
    while True:
        try:
            return connection.recv(len(ALL_HERE))
        except TimeoutError:
            waiting.for_([f"those for whom {leader} waits"])


def _await_tensorflow(leader: str) -> None:
    """Wait until the leader's TensorFlow listens: a first attempt that fails costs its client a second."""
    deadline = time.monotonic() + HANDOVER_SECONDS
    pause = pauses()
    while not listens(leader) and time.monotonic() < deadline:
        time.sleep(next(pause))
