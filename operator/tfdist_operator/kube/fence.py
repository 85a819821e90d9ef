"""The fence: what keeps the writes of a former leader from the API server (ADR 10).

The connection pool checks leadership as late as possible, when a write has its connection. The sockets send no data
after the end of their process, and detect a dead peer.
"""

import socket
import struct
from collections.abc import Callable
from typing import Any, Final

import aiohttp

from tfdist_operator.kube.errors import NotLeadingError

_UNACKNOWLEDGED_SECONDS: Final = 10
_IDLE_SECONDS: Final = 20
_PROBE_SECONDS: Final = 5
_PROBES: Final = 3
_DROP_AT_CLOSE: Final = struct.pack("ii", 1, 0)


def not_leading_error(method: str, path: str) -> NotLeadingError:
    """Return the error of a write that was not sent."""
    return NotLeadingError(0, "NotLeading", f"{method} {path} was not sent: this replica is not the leader")


class FencedConnector(aiohttp.TCPConnector):
    """A connection pool that returns a connection for a write only while `may_write` returns true."""

    def __init__(self, may_write: Callable[[], bool], **options: Any) -> None:
        super().__init__(**options)
        self._may_write = may_write

    async def connect(self, req: aiohttp.ClientRequest, *args: Any, **options: Any) -> Any:
        """Return a connection for a request, which is sent at once.

        Raises:
            NotLeadingError: the request writes, and this replica is no longer the leader.
        """
        # This waits for a free connection, for name resolution and for handshakes. A process that is suspended
        # meanwhile goes on here, when another replica leads.
        connection = await super().connect(req, *args, **options)
        if req.method != "GET" and not self._may_write():
            connection.release()
            raise not_leading_error(req.method, req.url.path)
        return connection


def api_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return an unconnected socket for an address of `getaddrinfo`."""
    family, kind, protocol = address[:3]
    connection = socket.socket(family, kind, protocol)
    connection.setblocking(False)
    # The kernel sends written data even after the process has ended: a request of a leader without connection could
    # arrive minutes later. With a linger time of 0, closing the socket discards it.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP_AT_CLOSE)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        # Not longer than the renew deadline: unacknowledged data is given up before another replica can lead.
        "TCP_USER_TIMEOUT": _UNACKNOWLEDGED_SECONDS * 1000,
        "TCP_KEEPIDLE": _IDLE_SECONDS,
        "TCP_KEEPINTVL": _PROBE_SECONDS,
        "TCP_KEEPCNT": _PROBES,
    }
    for name, value in options.items():
        if hasattr(socket, name):  # Linux has all of them, other systems do not
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection
