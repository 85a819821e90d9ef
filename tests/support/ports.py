"""Ports of this machine on which no process listens."""

import fcntl
import os
import random
import socket
import tempfile
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Final

RANGE: Final = range(12_000, 28_000)
"""Below those that Linux takes for outgoing connections (`ip_local_port_range`), of which one may be made at any
moment, and below those that Kubernetes gives to Services."""


_handed_out: set[int] = set()
"""A port may be bound long after it was handed out: another call of this process must not return it."""


def free_ports(count: int, *, together: int = 1) -> list[int]:
    """Return `count` different ones, each the first of so many `together`; no later call returns one of them again.

    Neither does a call in another process while this one runs: suites run at the same time.
    """
    ports: list[int] = []
    for port in random.sample(RANGE[::together], len(RANGE) // together):
        if len(ports) == count:
            break
        group = range(port, port + together)
        if _handed_out.isdisjoint(group) and _are_free(group) and _are_claimed(group):
            _handed_out.update(group)
            ports.append(port)
    return ports


def _are_free(ports: range) -> bool:
    with ExitStack() as held, suppress(OSError):
        for port in ports:
            held.enter_context(socket.socket()).bind(("", port))
        return True
    return False


def _are_claimed(ports: range) -> bool:
    """Claim the ports for this process until it ends; return False if another process has claimed one."""
    with suppress(OSError):
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, len(ports), ports.start)
        return True
    return False


@cache
def _claims() -> int:
    """Return the descriptor of a file whose bytes are locked as ports are claimed; it stays open, as the locks need."""
    path = Path(tempfile.gettempdir(), f"tfdist-test-ports-{os.getuid()}")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
