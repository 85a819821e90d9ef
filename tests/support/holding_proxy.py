"""A reverse proxy in front of the API server that can hold the open watches of one kind: nothing more comes by them.

So does a connection whose other side is gone, or a middlebox that has forgotten it. New connections work.
"""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
from aiohttp import web

from support.api import Api

_PASSED_ON = ("Authorization", "Accept", "Content-Type")


class HoldingProxy:
    """Passes requests on to the API server, as plain HTTP; every client brings its own token."""

    def __init__(self, api: Api) -> None:
        self._server = api.host
        self._tls = ssl.create_default_context(cafile=api.authority)
        self._watches: dict[str, list[threading.Event]] = {}
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
        held = threading.Event()
        if "watch" in request.query:
            self._watches.setdefault(request.path.split("/")[-1], []).append(held)
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        limits = aiohttp.ClientTimeout(total=None)
        body = await request.read()
        url = self._server + request.path_qs
        async with self._session.request(
            request.method, url, headers=headers, data=body or None, timeout=limits
        ) as answer:
            kind = answer.headers.get("Content-Type", "application/json")
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": kind})
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
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
