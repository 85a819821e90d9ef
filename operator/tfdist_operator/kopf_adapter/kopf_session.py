"""The HTTP session of kopf's requests to the API server.

kopf lists, watches, resumes and reconnects; its session observes and filters the responses:

* `last_contact` is the time at which each watch of jobs last received data. kopf does not pass bookmarks to handlers,
  and a healthy watch of a cluster without changes receives nothing else.
* `wait_until_listed` returns when kopf has listed the jobs. kopf does not report that, nor deletions that a list
  reveals.
* kopf parses with Python's json: an object nested deeper than its recursion limit would end the watch
  (`kube.json_bodies`).
* kopf ends the operator at an error event other than 410, and if the server answers 404 (the CRD is deleted) or 410 to
  a list or watch. This session makes kopf list the jobs again instead, after a delay.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final

import aiohttp
import orjson

from tfdist.api.resource import GROUP, PLURAL, VERSION
from tfdist.validation.structure import MAX_SPEC_BYTES
from tfdist_operator.cache.manifests import LARGE_BYTES, shrink_manifest
from tfdist_operator.kube.backoff import Backoff
from tfdist_operator.kube.client import USER_AGENT
from tfdist_operator.kube.fence import api_socket
from tfdist_operator.kube.json_bodies import LineBuffer, flatten
from tfdist_operator.kube.keys import ALL_NAMESPACES
from tfdist_operator.metrics import API_REQUESTS, WATCH_RESTARTS

log = logging.getLogger(__name__)

_OK: Final = 200
_GONE: Final = 410
_ENDS_KOPF: Final = frozenset({404, _GONE})
"""Status codes of a list or watch at which kopf ends the operator."""
_BAD_REQUEST: Final = 400
_ERROR: Final = b'{"type":"ERROR"'
_BOOKMARK: Final = b'{"type":"BOOKMARK"'
_END_OF_LIST: Final = b"k8s.io/initial-events-end"
_LONGEST_LINE: Final = 8 * 1024 * 1024
RELIST: Final = Backoff(2.0, 60.0)
"""Between an error and the list that follows. A list of all jobs is expensive, and an overloaded server gets fewer."""


class KopfSession:
    """Creates kopf's sessions and observes their requests for jobs.

    Args:
        ssl: TLS settings.
        authorization: returns the current authentication headers.
        namespaces: the watched namespaces, with one watch each; `ALL_NAMESPACES` for one watch of all.
        max_spec_bytes: size as JSON of the largest valid specification: kopf gets no larger one.
    """

    def __init__(
        self,
        ssl: Any,
        authorization: Callable[[], dict[str, str]],
        namespaces: Iterable[str],
        max_spec_bytes: int = MAX_SPEC_BYTES,
    ) -> None:
        self._ssl = ssl
        self._max_spec_bytes = max_spec_bytes
        self._authorization = authorization
        self.last_contact = dict.fromkeys(map(_collection, namespaces), time.monotonic())
        self._unlisted = set(self.last_contact)
        self._listed = asyncio.Event()
        self._watches: dict[str, aiohttp.ClientResponse] = {}
        self._failures = dict.fromkeys(self.last_contact, 0)
        """Consecutive errors of each watch that led to a list, without an event of a job between them."""
        WATCH_RESTARTS.labels(resource=PLURAL)  # shown from 0 on

    def new_session(self) -> aiohttp.ClientSession:
        """Return a session; kopf closes it."""
        connector = aiohttp.TCPConnector(limit=0, ssl=self._ssl, socket_factory=api_socket)
        headers = {"User-Agent": USER_AGENT}
        return aiohttp.ClientSession(connector=connector, headers=headers, middlewares=(self._observe,))

    async def wait_until_listed(self) -> None:
        """Return when kopf has listed the jobs of every namespace, and of at least one since the last return."""
        await self._listed.wait()
        self._listed.clear()

    def reconnect(self, namespace: str) -> None:
        """Close the connection of a namespace's watch; kopf resumes the watch by a new one."""
        if response := self._watches.get(_collection(namespace)):
            response.close()

    async def _observe(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        # For each request, since Kubernetes rotates the token (ADR 10).
        request.headers.update(self._authorization())
        path = request.url.path
        if path not in self.last_contact:
            return await handler(request)
        query = request.url.query
        watches = "watch" in query
        if not watches or "sendInitialEvents" in query:
            self._unlisted.add(path)
        else:
            self._on_list_end(path)
        response = await handler(request)
        API_REQUESTS.labels("WATCH" if watches else "LIST", PLURAL, str(response.status)).inc()
        # kopf ends the operator at these codes; the CRD may be created again, and an expired version needs a list only
        # (ADR 10).
        if response.status in _ENDS_KOPF:
            return await self._relist(path, response, watches=watches)
        if response.status < _BAD_REQUEST:
            if watches:
                WATCH_RESTARTS.labels(resource=PLURAL).inc(int(path in self._watches))
                self._watches[path] = response
                # An idle watch that resumes may receive no bookmark: the answer is all that shows that it is alive.
                if path not in self._unlisted:
                    self.last_contact[path] = time.monotonic()
            received, event = partial(self._on_line, path), partial(self._rewrite_event, path)
            response.content = _BoundedStream(response.content, received, event, self._shrink_page)  # type: ignore[assignment]
        return response

    async def _relist(self, path: str, response: aiohttp.ClientResponse, *, watches: bool) -> aiohttp.ClientResponse:
        """Make kopf list again after a delay instead of ending: the CRD may be created again, and versions expire.

        Raises:
            ClientPayloadError: the request was a list in pages, which kopf retries.
        """
        fields = {"resource": PLURAL, "code": response.status}
        log.warning("jobs cannot be listed or watched; they are listed again", extra=fields)
        response.release()
        await self._back_off(path)
        self.last_contact[path] = time.monotonic()
        if not watches:
            msg = f"the API server answers {response.status}"
            raise aiohttp.ClientPayloadError(msg)
        # An empty watch with the error 410 is the one answer after which kopf lists again by itself.
        response.status = _OK
        response.content = _ExpiredStream()  # type: ignore[assignment]
        return response

    async def _back_off(self, path: str) -> None:
        self._failures[path] += 1
        await asyncio.sleep(RELIST.seconds(self._failures[path]))

    async def _rewrite_event(self, path: str, line: bytes) -> bytes:
        """Return the line of an event of bounded depth; of an error event, after a delay and with the code 410."""
        if not line.startswith(_ERROR):
            return flatten(line) if len(line) <= LARGE_BYTES else self._shrink_event(line)
        event = orjson.loads(line)
        error = event["object"]
        # kopf ends the operator at an error event with any other code (ADR 10).
        if error.get("code") != _GONE:
            fields = {"resource": PLURAL, "error": error.get("message", ""), "code": error.get("code")}
            log.warning("watch interrupted; jobs are listed again", extra=fields)
            error["code"] = _GONE
        await self._back_off(path)
        return orjson.dumps(event)

    def _shrink_event(self, line: bytes) -> bytes:
        """Return an event of bounded depth whose object takes little memory."""
        event = orjson.loads(flatten(line))
        return orjson.dumps({**event, "object": shrink_manifest(event["object"], self._max_spec_bytes)})

    def _shrink_page(self, body: bytes) -> bytes:
        """Return a page of a list of bounded depth whose objects take little memory."""
        if len(body) <= LARGE_BYTES:
            return flatten(body)
        page = orjson.loads(flatten(body))
        return orjson.dumps(
            {**page, "items": [shrink_manifest(item, self._max_spec_bytes) for item in page.get("items", ())]}
        )

    def _on_line(self, path: str, line: bytes) -> None:
        self.last_contact[path] = time.monotonic()
        is_listed = path not in self._unlisted
        # kopf passes no bookmarks to handlers: this is where the end of a list shows.
        if line.startswith(_BOOKMARK) and _END_OF_LIST in line:
            self._on_list_end(path)
        elif is_listed and line and not line.startswith(_ERROR):
            self._failures[path] = 0  # the watch works again, and not only the list before it

    def _on_list_end(self, path: str) -> None:
        if path in self._unlisted:
            self._unlisted.remove(path)
            if not self._unlisted:
                self._listed.set()


class _ExpiredStream:
    """A stream with one error event: the resource version of the watch has expired."""

    async def iter_chunked(self, _size: int) -> AsyncIterator[bytes]:
        """Yield one event."""
        yield b'{"type":"ERROR","object":{"code":410}}\n'


class _BoundedStream:
    """An `aiohttp.StreamReader` of complete lines with JSON of bounded depth, as kopf can parse it."""

    def __init__(
        self,
        content: aiohttp.StreamReader,
        received: Callable[[bytes], None],
        event: Callable[[bytes], Awaitable[bytes]],
        page: Callable[[bytes], bytes],
    ) -> None:
        self._content = content
        self._on_line = received
        self._event = event
        self._page = page

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def read(self) -> bytes:
        """Return the whole body: a page of a list."""
        body = await self._content.read()
        self._on_line(b"")
        return self._page(body)

    async def iter_chunked(self, _size: int) -> AsyncIterator[bytes]:
        """Yield the lines of a watch as they arrive, one or more at a time."""
        buffer = LineBuffer()
        async for piece in self._content.iter_any():
            lines = buffer.feed(piece)
            for line in lines:
                self._on_line(line)
            if lines:
                yield b"".join([await self._event(line) + b"\n" for line in lines])
            if buffer.pending > _LONGEST_LINE:
                msg = "a watch event is longer than any object can be"
                raise aiohttp.ClientPayloadError(msg)


def _collection(namespace: str) -> str:
    """Return the path of the collection of jobs in one namespace, or in all."""
    namespace_path = "" if namespace == ALL_NAMESPACES else f"namespaces/{namespace}/"
    return f"/apis/{GROUP}/{VERSION}/{namespace_path}{PLURAL}"
