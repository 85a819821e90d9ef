"""A connection pool that checks leadership again as late as possible: when a write has its connection.

A request waits for a free connection, for name resolution and for handshakes. A leader that is suspended or loses its
connection in the meantime must not send the waiting request (see `leader_election`).
"""

from collections.abc import Callable
from typing import Any

import aiohttp

from tfdist_operator.kube.errors import NotLeading


def not_sent(method: str, path: str) -> NotLeading:
    """Return the error of a write that was not sent."""
    return NotLeading(0, "NotLeading", f"{method} {path} was not sent: this replica is not the leader")


class FencedConnector(aiohttp.TCPConnector):
    """A connection pool that returns a connection for a write only while `may_write` returns true."""

    def __init__(self, may_write: Callable[[], bool], **options: Any) -> None:
        super().__init__(**options)
        self._may_write = may_write

    async def connect(self, req: aiohttp.ClientRequest, *args: Any, **options: Any) -> Any:
        """Return a connection for a request, which is sent at once.

        Raises:
            NotLeading: the request writes, and this replica is no longer the leader.
        """
        connection = await super().connect(req, *args, **options)
        if req.method != "GET" and not self._may_write():
            connection.release()
            raise not_sent(req.method, req.url.path)
        return connection
