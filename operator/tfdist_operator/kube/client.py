"""Requests to the API server: one pooled session, orjson, typed errors, every request counted.

When the server says that it is overloaded (429), every request of this process waits as long as it asked for,
not only the one that was refused.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

import aiohttp
import orjson

from tfdist_operator.kube.errors import Unavailable, error_for
from tfdist_operator.metrics import API_REQUESTS

Json = dict[str, Any]

FIELD_MANAGER: Final = "tfdist-controller"
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_CONNECTIONS: Final = 64
_TIMEOUT_SECONDS: Final = 30.0
_OVERLOAD_ATTEMPTS: Final = 5


class Client:
    """The API server, as the controller uses it. Use as an asynchronous context manager."""

    def __init__(self, server: str, ssl: Any, authorization: Callable[[], dict[str, str]]) -> None:
        self._server = server.rstrip("/")
        self._ssl = ssl
        self._authorization = authorization
        self._session: aiohttp.ClientSession | None = None
        self._paused_until = 0.0

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=self._ssl)
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
        body: Json | None = None,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> Json:
        """Send one request and return the JSON of the answer.

        Args:
            method: HTTP method.
            path: path below the server's address.
            resource: what the request is about, for the metric, for example `pods`.
            body: sent as JSON.
            content_type: of the body; patches have their own.
            query: parameters of the address.

        Raises:
            ApiError: the server refused, is overloaded, or does not answer.
        """
        for _ in range(_OVERLOAD_ATTEMPTS):
            await self._wait_while_overloaded()
            try:
                async with self._send(method, path, resource, body, content_type, query or {}) as response:
                    return await self._content(response)
            except Unavailable as error:
                if error.code != 429:  # noqa: PLR2004  HTTP's own number
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
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_TIMEOUT_SECONDS, sock_read=read_timeout_seconds)
        async with self._send("WATCH", path, resource, None, JSON, query, limits) as response:
            if response.status >= 400:  # noqa: PLR2004  HTTP's own number
                await self._content(response)
            yield response.content

    @asynccontextmanager
    async def _send(
        self,
        verb: str,
        path: str,
        resource: str,
        body: Json | None,
        content_type: str,
        query: Mapping[str, str],
        limits: aiohttp.ClientTimeout | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        assert self._session is not None, "use the client as a context manager"  # noqa: S101  a bug of the caller
        code = "error"
        try:
            async with self._session.request(
                "GET" if verb == "WATCH" else verb,
                self._server + path,
                params=query,
                data=orjson.dumps(body) if body is not None else None,
                headers=self._authorization() | {"Content-Type": content_type, "Accept": JSON},
                timeout=limits or aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS),
            ) as response:
                code = str(response.status)
                yield response
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unavailable(0, "NoAnswer", f"{verb} {path}: {error or type(error).__name__}") from error
        finally:
            API_REQUESTS.labels(verb=verb, resource=resource, code=code).inc()

    async def _content(self, response: aiohttp.ClientResponse) -> Json:
        data: Json = orjson.loads(await response.read() or b"{}") if _is_json(response) else {}
        if response.status < 400:  # noqa: PLR2004  HTTP's own number
            return data
        if response.status == 429:  # noqa: PLR2004
            self._pause(response.headers.get("Retry-After", "1"))
        causes = [cause.get("reason", "") for cause in (data.get("details") or {}).get("causes") or ()]
        raise error_for(response.status, data.get("reason", ""), data.get("message", response.reason or ""), causes)

    def _pause(self, retry_after: str) -> None:
        seconds = float(retry_after) if retry_after.isdigit() else 1.0
        self._paused_until = max(self._paused_until, time.monotonic() + seconds)

    async def _wait_while_overloaded(self) -> None:
        await asyncio.sleep(max(0.0, self._paused_until - time.monotonic()))


def _is_json(response: aiohttp.ClientResponse) -> bool:
    return "json" in response.headers.get("Content-Type", "")
