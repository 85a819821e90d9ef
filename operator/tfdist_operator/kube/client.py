"""Requests to the API server: one pooled session, orjson, typed errors, every request counted.

When the server says that it is overloaded (429 or 5xx with Retry-After), every request of this process waits as long
as it asked for, not only the one that was refused; then they go on spread over the same time, not all at once. A
write is sent only while `may_write` says so, which is asked last of all: see `kube.elector`.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

import aiohttp
import orjson

from tfdist_operator.kube.errors import NotLeading, Unavailable, error_for
from tfdist_operator.kube.sockets import api_socket
from tfdist_operator.metrics import API_REQUESTS

Json = dict[str, Any]

FIELD_MANAGER: Final = "tfdist-controller"
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

CONNECTIONS: Final = 64
TIMEOUT_SECONDS: Final = 30.0
_OVERLOAD_ATTEMPTS: Final = 5
_LONGEST_PAUSE_SECONDS: Final = 60.0


def _always() -> bool:
    return True


class Client:
    """The API server, as the controller uses it. Use as an asynchronous context manager.

    Args:
        server: its address.
        ssl: TLS settings.
        authorization: gives the headers to authenticate with now.
        may_write: whether a request that changes something may be sent now.
        connections: how many requests may be in flight.
        timeout_seconds: for one request with its answer.
        clock: monotonic, in seconds.
        sleep: waits for so many of them.
    """

    def __init__(
        self,
        server: str,
        ssl: Any,
        authorization: Callable[[], dict[str, str]],
        *,
        may_write: Callable[[], bool] = _always,
        connections: int = CONNECTIONS,
        timeout_seconds: float = TIMEOUT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._server = server.rstrip("/")
        self._ssl = ssl
        self._authorization = authorization
        self._may_write = may_write
        self._connections = connections
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._sleep = sleep
        self._session: aiohttp.ClientSession | None = None
        self._paused_until = 0.0
        self._spread = 0.0

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=self._connections, ssl=self._ssl, socket_factory=api_socket)
        self._session = aiohttp.ClientSession(connector=connector)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        resource: str,
        body: Json | list[Json] | None = None,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
        accept: str = JSON,
    ) -> Json:
        """Send one request and return the JSON of the answer.

        Args:
            method: HTTP method.
            path: path below the server's address.
            resource: what the request is about, for the metric, for example `pods`.
            body: sent as JSON.
            content_type: of the body; patches have their own.
            query: parameters of the address.
            accept: content type that the answer shall have.

        Raises:
            ApiError: the server refused, is overloaded, or does not answer; or this replica may not write.
        """
        limits = aiohttp.ClientTimeout(total=self._timeout_seconds)
        for _ in range(_OVERLOAD_ATTEMPTS):
            await self._wait_while_overloaded()
            if method != "GET" and not self._may_write():
                raise NotLeading(0, "NotLeading", f"{method} {path} was not sent: this replica does not lead")
            try:
                headers = {"Content-Type": content_type, "Accept": accept}
                async with self._send(method, path, resource, body, headers, query or {}, limits) as response:
                    return await self._content(response)
            except Unavailable as error:
                if not error.retry_after:
                    raise
        raise Unavailable(429, "TooManyRequests", f"{method} {path} was refused {_OVERLOAD_ATTEMPTS} times")

    @asynccontextmanager
    async def stream(
        self, path: str, *, resource: str, read_timeout_seconds: float, query: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a watch and give its lines; a silence longer than `read_timeout_seconds` ends it.

        Raises:
            ApiError: as for `request`.
        """
        await self._wait_while_overloaded()
        connect = self._timeout_seconds
        limits = aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=read_timeout_seconds)
        async with self._send("WATCH", path, resource, None, {"Accept": JSON}, query, limits) as response:
            if response.status >= 400:  # noqa: PLR2004  HTTP's own number
                await self._content(response)
            yield response.content

    @asynccontextmanager
    async def _send(
        self,
        verb: str,
        path: str,
        resource: str,
        body: Json | list[Json] | None,
        headers: Mapping[str, str],
        query: Mapping[str, str],
        limits: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        assert self._session is not None, "use the client as a context manager"  # noqa: S101  a bug of the caller
        kind = _kind_of_request(verb, path, resource)
        answered = False
        try:
            async with self._session.request(
                "GET" if verb == "WATCH" else verb,
                self._server + path,
                params=query,
                data=orjson.dumps(body) if body is not None else None,
                headers={**self._authorization(), **headers},
                timeout=limits,
            ) as response:
                answered = True
                API_REQUESTS.labels(*kind, str(response.status)).inc()
                yield response
        except (aiohttp.ClientError, TimeoutError) as error:
            if not answered:
                API_REQUESTS.labels(*kind, "error").inc()
            raise Unavailable(0, "NoAnswer", f"{verb} {path}: {error or type(error).__name__}") from error

    async def _content(self, response: aiohttp.ClientResponse) -> Json:
        data: Json = orjson.loads(await response.read() or b"{}") if _is_json(response) else {}
        status = response.status
        if status < 400:  # noqa: PLR2004  HTTP's own number
            return data
        causes = [cause.get("reason", "") for cause in (data.get("details") or {}).get("causes") or ()]
        error = error_for(status, data.get("reason", ""), data.get("message", response.reason or ""), causes)
        if isinstance(error, Unavailable):
            default = "1" if status == 429 else ""  # noqa: PLR2004
            error.retry_after = self._pause(response.headers.get("Retry-After", default))
        raise error

    def _pause(self, retry_after: str) -> bool:
        """Let all requests wait as long as the server asks; return whether it asked at all."""
        if not retry_after:
            return False
        seconds = min(float(retry_after) if retry_after.isdigit() else 1.0, _LONGEST_PAUSE_SECONDS)
        self._paused_until = max(self._paused_until, self._clock() + seconds)
        self._spread = min(max(seconds, 0.1), 5.0)
        return True

    async def _wait_while_overloaded(self) -> None:
        if (left := self._paused_until - self._clock()) > 0:
            await self._sleep(left + random.uniform(0, self._spread))  # noqa: S311


_OF_COLLECTIONS: Final = {"GET": "LIST", "DELETE": "DELETECOLLECTION"}


def _kind_of_request(verb: str, path: str, resource: str) -> tuple[str, str]:
    """Return verb and resource as the API server's own metrics and roles tell them apart."""
    if path.endswith("/status"):
        return verb, f"{resource}/status"
    return (_OF_COLLECTIONS.get(verb, verb) if path.endswith(f"/{resource}") else verb), resource


def _is_json(response: aiohttp.ClientResponse) -> bool:
    return "json" in response.headers.get("Content-Type", "")
