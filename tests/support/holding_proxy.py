"""A reverse proxy in front of the API server that holds open watches of one kind, and answers some paths by itself.

Nothing more comes by a watch that is held, as from a connection whose other side is gone, or a middlebox that has
forgotten it. New connections work. Its own answers are those of an API server that starts, or lacks a right or an API.
"""

import asyncio
import math
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from support.api import Api, Json

_PASSED_ON = ("Authorization", "Accept", "Content-Type")


@dataclass
class _Answer:
    """What the next `times` requests are answered whose path matches."""

    path: re.Pattern[str]
    code: int
    body: Json
    times: float


class HoldingProxy:
    """Passes requests on to the API server, as plain HTTP; every client brings its own token."""

    def __init__(self, api: Api) -> None:
        self._server = api.host
        self._tls = ssl.create_default_context(cafile=api.authority)
        self._watches: dict[str, list[threading.Event]] = {}
        self._answers: list[_Answer] = []
        self._paths: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.address = ""

    def hold(self, plural: str) -> int:
        """Pass nothing more on by the watches of a kind that are open now; return how many these are."""
        held = self._watches.get(plural, [])
        for watch in held:
            watch.set()
        return len(held)

    def answer(self, path: str, code: int, body: Json | None = None, *, times: float = math.inf) -> None:
        """Answer the next requests whose whole path matches a regular expression, before earlier such answers.

        Args:
            path: the expression.
            code: the HTTP status.
            body: of the answer; without it, the `Status` of an error.
            times: number of requests that are answered so.
        """
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": f"error {code}"}
        self._answers.insert(0, _Answer(re.compile(path), code, status if body is None else body, times))

    def pass_all_on(self) -> None:
        """Answer nothing any more."""
        self._answers.clear()

    def count(self, path: str) -> int:
        """Return how many requests there have been whose whole path matches a regular expression."""
        return sum(re.fullmatch(path, each) is not None for each in list(self._paths))

    def start(self) -> None:
        """Serve from a thread."""
        self._thread.start()
        assert self._started.wait(60)

    def stop(self) -> None:
        """Close everything."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = self._loop.run_until_complete(self._serve())
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._session.close())
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _serve(self) -> web.AppRunner:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=self._tls))
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        self._paths.append(request.path)
        for answer in self._answers:
            if answer.times > 0 and answer.path.fullmatch(request.path):
                answer.times -= 1
                return web.json_response(answer.body, status=answer.code)
        held = threading.Event()
        if "watch" in request.query:
            self._watches.setdefault(request.path.split("/")[-1], []).append(held)
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        limits = aiohttp.ClientTimeout(total=None)
        body = await request.read()
        url = self._server + request.path_qs
        async with self._session.request(
            request.method, url, headers=headers, data=body or None, timeout=limits
        ) as received:
            kind = received.headers.get("Content-Type", "application/json")
            response = web.StreamResponse(status=received.status, headers={"Content-Type": kind})
            await response.prepare(request)
            async for chunk in received.content.iter_any():
                if not held.is_set():
                    await response.write(chunk)
            if held.is_set():
                await asyncio.Event().wait()  # not even its end comes through
            await response.write_eof()
            return response


@contextmanager
def holding_proxy(api: Api) -> Iterator[HoldingProxy]:
    """Run a proxy to the API server until the block ends."""
    proxy = HoldingProxy(api)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
