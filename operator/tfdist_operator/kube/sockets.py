"""Connections that die when their peer does, and that send nothing after their process has ended.

A leader that is cut off from the API server must leave nothing behind. The kernel keeps sending what a process has
written even after the process has ended, so a request could arrive minutes later, when another replica leads. Three
settings prevent that: a closed socket drops what it holds, data that is not acknowledged gives up after the deadline
of the leader, and a connection on which nothing is said is asked whether the other side is still there.
"""

import socket
import struct
from typing import Any, Final

_UNACKNOWLEDGED_SECONDS: Final = 10
_IDLE_SECONDS: Final = 20
_PROBE_SECONDS: Final = 5
_PROBES: Final = 3
_DROP_AT_CLOSE: Final = struct.pack("ii", 1, 0)


def api_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return an unconnected socket for an address as `getaddrinfo` gives it."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP_AT_CLOSE)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_USER_TIMEOUT": _UNACKNOWLEDGED_SECONDS * 1000,
        "TCP_KEEPIDLE": _IDLE_SECONDS,
        "TCP_KEEPINTVL": _PROBE_SECONDS,
        "TCP_KEEPCNT": _PROBES,
    }
    for name, value in options.items():
        if hasattr(socket, name):  # Linux has them all; a developer's machine may not
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
