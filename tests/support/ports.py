"""Ports of this machine on which no process listens."""

import random
import socket
from contextlib import ExitStack, suppress
from typing import Final

RANGE: Final = range(12_000, 28_000)
"""Below those that Linux takes for outgoing connections (`ip_local_port_range`), of which one may be made at any
moment, and below those that Kubernetes gives to Services."""


_handed_out: set[int] = set()
"""A port may be bound long after it was handed out: another call of this process must not return it."""


def free_ports(count: int, *, together: int = 1) -> list[int]:
    """Return `count` different ones, each the first of so many `together`; no later call returns one of them again."""
    found: list[int] = []
    for port in random.sample(RANGE[::together], len(RANGE) // together):
        if len(found) == count:
            break
        group = range(port, port + together)
        if _handed_out.isdisjoint(group) and _are_free(group):
            _handed_out.update(group)
            found.append(port)
    return found


def _are_free(ports: range) -> bool:
    with ExitStack() as held, suppress(OSError):
        for port in ports:
            held.enter_context(socket.socket()).bind(("", port))
        return True
    return False
