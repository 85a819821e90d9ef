"""Requests to the API server, with typed errors and a count of every request; and whether the server is reachable.

When the API server reports overload (429 or 5xx with Retry-After), every request of this process waits, not only the
rejected one. A write is sent only while `may_write` returns true: see `leader_election` and `kube.fence`.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

import aiohttp
import orjson

from tfdist import __version__
from tfdist_operator.kube.errors import SilentWatchError, UnavailableError, error_for
from tfdist_operator.kube.fence import FencedConnector, api_socket, not_leading_error
from tfdist_operator.kube.json_bodies import Json, decode
from tfdist_operator.metrics import API_REQUESTS

FIELD_MANAGER: Final = "tfdist-controller"
"""Owner of the fields that the controller writes, in `managedFields`."""
USER_AGENT: Final = f"{FIELD_MANAGER}/{__version__}"
"""Identifies the controller in audit logs and in the API server's metrics."""
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
CONNECTIONS: Final = 64
TIMEOUT_SECONDS: Final = 30.0
_OVERLOAD_ATTEMPTS: Final = 5
_NAMED_WRITES: Final = frozenset({"POST", "PUT", "PATCH"})
"""Methods of requests that name a field manager."""
_LONGEST_PAUSE_SECONDS: Final = 60.0
_COLLECTION_VERBS: Final = {"GET": "LIST", "DELETE": "DELETECOLLECTION"}


class Connectivity:
    """Tracks the responses to all requests except watches.

    A watch is dead if other requests have been answered for minutes while it has received nothing.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failing = True
        self._since = self._last = clock()

    def on_response(self) -> None:
        """Record a response."""
        self._last = self._clock()
        # After an outage, requests succeed before the watches are resumed. The time counts from here: a probe that
        # fails in between would restart every replica at the same moment (ADR 10).
        if self._failing:
            self._failing, self._since = False, self._last

    def on_failure(self) -> None:
        """Record a request without a response."""
        self._failing = True

    def reachable_seconds(self, since: float) -> float:
        """Return how long the API server has been reachable since a moment, in seconds."""
        return self._last - max(since, self._since)


def _always() -> bool:
    return True


class ApiClient:
    """A client of the API server, and an asynchronous context manager.

    Args:
        server: URL of the API server.
        ssl: TLS settings.
        authorization: returns the current authentication headers.
        may_write: returns whether a write may be sent now.
        connections: maximum number of requests in flight, without watches.
        timeout_seconds: time limit of one request with its response.
        connectivity: records responses and failures to respond.
        clock: monotonic, in seconds.
        sleep: waits for a number of seconds.
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
        connectivity: Connectivity | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._server = server.rstrip("/")
        self._ssl = ssl
        self._authorization = authorization
        self._may_write = may_write
        self._connections = connections
        self._timeout_seconds = timeout_seconds
        self._connectivity = connectivity or Connectivity()
        self._clock = clock
        self._sleep = sleep
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        """By whether they are for watches."""
        self._paused_until = 0.0
        self._spread = 0.0

    async def __aenter__(self) -> Self:
        # A watch keeps its connection for minutes, and a controller of many namespaces has more watches than a pool has
        # connections: a shared pool would leave none for requests (ADR 19).
        for watches, limit in ((False, self._connections), (True, 0)):
            options = {"limit": limit, "ssl": self._ssl, "socket_factory": api_socket}
            connector = FencedConnector(self._may_write, **options)
            self._sessions[watches] = aiohttp.ClientSession(connector=connector, headers={"User-Agent": USER_AGENT})
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in self._sessions.values():
            await session.close()

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
        """Send one request and return the JSON of the response.

        Args:
            method: HTTP method.
            path: path of the URL.
            resource: plural of the resource, for the metric, for example `pods`.
            body: sent as JSON.
            content_type: of the body; each kind of patch has its own.
            query: query parameters of the URL.
            accept: content type of the response.

        Raises:
            ApiError: the server rejects the request, is overloaded, or does not answer; or this replica may not write.
        """
        limits = aiohttp.ClientTimeout(total=self._timeout_seconds)
        parameters = {"fieldManager": FIELD_MANAGER, **(query or {})} if method in _NAMED_WRITES else query or {}
        for _ in range(_OVERLOAD_ATTEMPTS):
            await self._wait_while_overloaded()
            # Checked here so that a replica that lost the Lease while it waited takes no connection, and again by the
            # pool once the write has its connection (`kube.fence`).
            if method != "GET" and not self._may_write():
                raise not_leading_error(method, path)
            try:
                headers = {"Content-Type": content_type, "Accept": accept}
                async with self._send(method, path, resource, body, headers, parameters, limits) as response:
                    return await self._content(response)
            except UnavailableError as error:
                # Only a response with Retry-After proves that the server has not executed the request: any other one is
                # not repeated here, since a second POST could meet the object of the first.
                if not error.retry_after:
                    raise
        raise UnavailableError(429, "TooManyRequests", f"{method} {path} was rejected {_OVERLOAD_ATTEMPTS} times")

    @asynccontextmanager
    async def stream(
        self, path: str, *, resource: str, read_timeout_seconds: float, query: Mapping[str, str], accept: str = JSON
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a watch and return its stream of lines; it ends after `read_timeout_seconds` without data.

        Raises:
            SilentWatchError: that time has passed.
            ApiError: as for `request`.
        """
        await self._wait_while_overloaded()
        connect = self._timeout_seconds
        limits = aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=read_timeout_seconds)
        async with self._send("WATCH", path, resource, None, {"Accept": accept}, query, limits) as response:
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
        assert self._sessions, "use the client as a context manager"  # noqa: S101  an error of the caller
        kind = _metric_labels(verb, path, resource)
        has_response = False
        try:
            async with self._sessions[verb == "WATCH"].request(
                "GET" if verb == "WATCH" else verb,
                self._server + path,
                params=query,
                data=orjson.dumps(body) if body is not None else None,
                headers={**self._authorization(), **headers},
                timeout=limits,
            ) as response:
                has_response = True
                if verb != "WATCH":
                    self._connectivity.on_response()
                API_REQUESTS.labels(*kind, str(response.status)).inc()
                yield response
        except (aiohttp.ClientError, TimeoutError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not _is_descriptor_in_use(error):
                raise
            # The watch was connected, so that a timeout means no data and not an unreachable server.
            if has_response and isinstance(error, aiohttp.SocketTimeoutError):
                raise SilentWatchError(0, "Silent", f"{verb} {path}: {error}") from error
            if not has_response:
                self._connectivity.on_failure()
                API_REQUESTS.labels(*kind, "error").inc()
            raise UnavailableError(0, "NoAnswer", f"{verb} {path}: {error or type(error).__name__}") from error

    async def _content(self, response: aiohttp.ClientResponse) -> Json:
        data = await self._json(response)
        status = response.status
        if status < 400:  # noqa: PLR2004  HTTP's own number
            return data
        causes = (data.get("details") or {}).get("causes") or ()
        reasons = [cause.get("reason", "") for cause in causes]
        error = error_for(status, data.get("reason", ""), data.get("message", response.reason or ""), reasons)
        error.fields = tuple(cause["field"] for cause in causes if cause.get("field"))
        if isinstance(error, UnavailableError):
            # A 429 without the header means overload, too; a 5xx without it may have been executed.
            default = "1" if status == 429 else ""  # noqa: PLR2004
            error.retry_after = self._pause(response.headers.get("Retry-After", default))
        raise error

    async def _json(self, response: aiohttp.ClientResponse) -> Json:
        """Return the body; {} if its content type is not JSON, as for the error page of a proxy."""
        if "json" not in response.headers.get("Content-Type", ""):
            return {}
        try:
            content: Json = decode(await response.read() or b"{}")
        except ValueError as error:
            text = f"{response.method} {response.url.path}: the answer is not JSON: {error}"
            raise UnavailableError(response.status, "Malformed", text) from error
        return content

    def _pause(self, retry_after: str) -> bool:
        """Delay all requests by the time of a Retry-After header; return whether there is one."""
        if not retry_after:
            return False
        # The header may also be a date, or come from a proxy with any number: neither may stop the controller for long.
        seconds = min(float(retry_after) if retry_after.isdigit() else 1.0, _LONGEST_PAUSE_SECONDS)
        self._paused_until = max(self._paused_until, self._clock() + seconds)
        # Requests that waited are sent spread over the same time: all at once, they would overload the server again.
        self._spread = min(max(seconds, 0.1), 5.0)
        return True

    async def _wait_while_overloaded(self) -> None:
        if (remaining := self._paused_until - self._clock()) > 0:
            await self._sleep(remaining + random.uniform(0, self._spread))  # noqa: S311


def _metric_labels(verb: str, path: str, resource: str) -> tuple[str, str]:
    """Return verb and resource as in the API server's metrics and in roles."""
    if path.endswith("/status"):
        return verb, f"{resource}/status"
    return (_COLLECTION_VERBS.get(verb, verb) if path.endswith(f"/{resource}") else verb), resource


def _is_descriptor_in_use(error: RuntimeError) -> bool:
    """Return whether the event loop rejected a new socket because it still has a closed one with the same descriptor.

    uvloop's `_ensure_fd_no_transport`. The error passes as soon as the loop has read the end of the old connection.
    """
    return str(error).startswith("File descriptor ")
