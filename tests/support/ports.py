"""Ports of this machine on which no process listens."""

import random
import socket
from contextlib import ExitStack, suppress
from typing import Final

RANGE: Final = range(12_000, 28_000)
"""Below those that Linux takes for outgoing connections (`ip_local_port_range`), of which one may be made at any
moment, and below those that Kubernetes gives to Services."""


def free_ports(count: int, *, together: int = 1) -> list[int]:
    """Return `count` different ones, each the first of so many `together`; whoever comes first may take them."""
    found: list[int] = []
    for port in random.sample(RANGE[::together], len(RANGE) // together):
        if len(found) == count:
            break
        with ExitStack() as held, suppress(OSError):
            for each in range(port, port + together):
                held.enter_context(socket.socket()).bind(("", each))
            found.append(port)
    return found
