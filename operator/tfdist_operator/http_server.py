"""An HTTP server that anyone in the cluster may connect to: each connection has one request, and few are open.

Of more connections than the limit, the oldest one of the address with the most connections is closed. So a probe of the
kubelet is answered whoever holds connections, and however many.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.web_protocol import RequestHandler

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

REQUEST_SECONDS: Final = 10.0
"""Time limit of a connection, from its acceptance to the end of the response."""


class HttpServer:
    """Serves requests from `start` to `stop`.

    Args:
        handler: returns the response to a request.
        connections: maximum number of open connections.
        seconds: time limit of a connection.
        max_bytes: maximum size of the body of a request.
    """

    def __init__(
        self, handler: Handler, connections: int, *, seconds: float = REQUEST_SECONDS, max_bytes: int = 0
    ) -> None:
        self._handler = handler
        self._connections = connections
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._runner: web.ServerRunner | None = None

    @property
    def addresses(self) -> list[Any]:
        """The addresses that it listens on."""
        return self._runner.addresses if self._runner is not None else []

    async def start(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Listen on `port` of every address.

        Raises:
            OSError: the port is in use.
        """
        server = _BoundedServer(self._answer, self._connections, self._seconds, self._max_bytes)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, port=port, ssl_context=tls).start()

    async def stop(self) -> None:
        """Stop listening, and close all connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        response = await self._handler(request)
        response.force_close()
        return response


@dataclass(frozen=True, slots=True)
class _OpenConnection:
    transport: asyncio.Transport
    timer: asyncio.TimerHandle
    address: str


class _BoundedServer(web.Server):
    """aiohttp's server with limits on the number of connections, on their time, and on the bodies of requests."""

    def __init__(self, handler: Handler, limit: int, seconds: float, max_bytes: int) -> None:
        super().__init__(handler, request_factory=self._request, access_log=None, lingering_time=0)
        self._limit = limit
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._open: dict[RequestHandler, _OpenConnection] = {}
        """Connections that have not been aborted, oldest first."""

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Record a connection, and abort another one if there are too many."""
        super().connection_made(handler, transport)
        timer = asyncio.get_running_loop().call_later(self._seconds, self._abort, handler)
        address = (transport.get_extra_info("peername") or ("",))[0]
        self._open[handler] = _OpenConnection(transport, timer, address)
        # An old connection is closed and the new one is not rejected: a probe of the kubelet is answered whoever holds
        # connections (ADR 53).
        if len(self._open) > self._limit:
            counts = Counter(connection.address for connection in self._open.values())
            self._abort(
                max(self._open, key=lambda handler: counts[self._open[handler].address])
            )  # of equal ones the oldest

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        super().connection_lost(handler, exc)
        if connection := self._open.pop(handler, None):
            connection.timer.cancel()

    def _request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: RequestHandler,
        writer: AbstractStreamWriter,
        task: "asyncio.Task[None]",
    ) -> web.BaseRequest:
        return web.BaseRequest(message, payload, protocol, writer, task, self._loop, client_max_size=self._max_bytes)

    def _abort(self, handler: RequestHandler) -> None:
        connection = self._open.pop(handler)
        connection.timer.cancel()
        connection.transport.abort()
