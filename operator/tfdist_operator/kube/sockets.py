"""TCP sockets that detect a dead peer and send no data after the end of their process.

The kernel sends written data even after the process has ended. So a request of a leader without connection to the API
server could arrive minutes later, when another replica leads. Three settings prevent that: SO_LINGER of 0 discards
unsent data when a socket is closed, TCP_USER_TIMEOUT closes a connection whose data is not acknowledged within the
leader's renew deadline, and keepalive probes detect a dead peer of an idle connection.
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
    """Return an unconnected socket for an address of `getaddrinfo`."""
    family, kind, protocol = address[:3]
    connection = socket.socket(family, kind, protocol)
    connection.setblocking(False)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP_AT_CLOSE)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_USER_TIMEOUT": _UNACKNOWLEDGED_SECONDS * 1000,
        "TCP_KEEPIDLE": _IDLE_SECONDS,
        "TCP_KEEPINTVL": _PROBE_SECONDS,
        "TCP_KEEPCNT": _PROBES,
    }
    for name, value in options.items():
        if hasattr(socket, name):  # Linux has all of them, other systems do not
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection
