"""Ports of this machine that nobody listens on."""

import random
import socket
from contextlib import suppress
from typing import Final

RANGE: Final = range(12_000, 28_000)
"""Below those that Linux takes for outgoing connections (`ip_local_port_range`), of which one may be made at any
moment, and below those that Kubernetes gives to Services."""


def free_ports(count: int) -> list[int]:
    """Return `count` different ones; whoever comes first may take them."""
    found: list[int] = []
    for port in random.sample(RANGE, len(RANGE)):
        if len(found) == count:
            break
        with socket.socket() as one, suppress(OSError):
            one.bind(("", port))
            found.append(port)
    return found
