"""An API server of one kind that real kopf watches: a test writes the lines of each stream, and answers as it likes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import kopf
import orjson
from aiohttp import web

from tfdist_operator import handlers
from tfdist_operator.kopf_adapter.kopf_session import KopfSession
from tfdist_operator.webhook.admission import Review, review
from tfdist_operator.webhook.server import ReviewFunction

Json = dict[str, Any]
JOBS = "/apis/tfdist.dev/v1/tfdistjobs"


def _kind(plural: str, kind: str, *, namespaced: bool) -> Json:
    verbs = ["list", "watch", "patch"]
    return {"name": plural, "kind": kind, "singularName": kind.lower(), "namespaced": namespaced, "verbs": verbs}


_GROUPS: Final = {"tfdist.dev": ("v1", "v1alpha1"), "apiextensions.k8s.io": ("v1",)}
_DISCOVERY: Final[Json] = {
    "/api": {"versions": ["v1"]},
    "/api/v1": {"resources": [_kind("namespaces", "Namespace", namespaced=False)]},
    "/apis": {
        "groups": [
            {
                "name": group,
                "versions": [{"version": version} for version in versions],
                "preferredVersion": {"version": "v1"},
            }
            for group, versions in _GROUPS.items()
        ]
    },
    "/apis/tfdist.dev/v1": {"resources": [_kind("tfdistjobs", "TFDistJob", namespaced=True)]},
    "/apis/tfdist.dev/v1alpha1": {"resources": [_kind("tfdistsweeps", "TFDistSweep", namespaced=True)]},
    "/apis/apiextensions.k8s.io/v1": {
        "resources": [_kind("customresourcedefinitions", "CustomResourceDefinition", namespaced=False)]
    },
}


class Stream:
    """One watch that kopf has opened."""

    def __init__(self, query: Json) -> None:
        self.query = query
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()

    def send(self, kind: str, content: Json | bytes) -> None:
        """Send an event; its object is JSON, or bytes that are sent as they are."""
        text = content if isinstance(content, bytes) else orjson.dumps(content)
        self.lines.put_nowait(b'{"type":"' + kind.encode() + b'","object":' + text + b"}\n")

    def end_of_list(self, version: int) -> None:
        """Send the bookmark that ends a streamed list."""
        notes = {"k8s.io/initial-events-end": "true"}
        self.send("BOOKMARK", {"metadata": {"resourceVersion": str(version), "annotations": notes}})


class Kopf:
    """kopf with the handlers of the controller, which only remember what they are called with."""

    def __init__(self) -> None:
        self.streams: asyncio.Queue[Stream] = asyncio.Queue()
        self.events: list[tuple[str | None, str]] = []
        self.on_event: Callable[[str | None, Json], None] = lambda _kind, _raw: None
        self.stored: list[Json] = []
        """What a list that is no stream holds: that of the controller itself."""
        self.answer: Callable[[], int] = lambda: 200
        self.requests: list[str] = []
        self.kopf_session = KopfSession(None, lambda: {"Authorization": "Bearer token"}, [""])
        self.server = ""
        self.running: asyncio.Task[None] | None = None
        self.admission: asyncio.Future[ReviewFunction] = asyncio.get_running_loop().create_future()
        """What kopf gives to an admission server, once it has discovered the resources."""

    def session(self) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(server=self.server, aiohttp_session=self.kopf_session.new_session())

    async def start(self) -> None:
        """Start nothing."""

    async def stop(self) -> None:
        """Stop nothing."""

    def on_job_event(self, kind: str | None, raw: Any) -> None:
        self.on_event(kind, raw)
        self.events.append((kind, raw["metadata"]["name"]))

    async def review(self, manifest: Mapping[str, Any], old: Mapping[str, Any] | None) -> Review:
        """Review as the controller of an installation without pod defaults."""
        return review(manifest, old, {})

    async def serve(self, review_function: ReviewFunction) -> AsyncIterator[Any]:
        """Take the place of the HTTPS server of the webhook."""
        self.admission.set_result(review_function)
        yield {"url": "https://localhost"}
        await asyncio.Event().wait()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when a condition holds; kopf must not end before."""
        async with asyncio.timeout(60):
            while not condition():
                assert self.running is not None
                assert not self.running.done(), self.running.exception()
                await asyncio.sleep(0.01)

    async def stream(self) -> Stream:
        """Return the next watch that kopf opens."""
        await self.until(lambda: not self.streams.empty())
        return self.streams.get_nowait()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        if request.path in _DISCOVERY:
            return web.json_response(_DISCOVERY[request.path])
        if (code := self.answer()) != 200:
            return web.json_response({"kind": "Status", "code": code, "message": "rejected by the test"}, status=code)
        if "watch" not in request.query:
            return web.json_response({"items": self.stored, "metadata": {"resourceVersion": "50"}})
        stream, response = Stream(dict(request.query)), web.StreamResponse()
        await response.prepare(request)
        self.streams.put_nowait(stream)
        with suppress(ConnectionError):
            while line := await stream.lines.get():
                await response.write(line)
        return response


@asynccontextmanager
async def watching(*, streaming: bool = True, webhook: bool = False) -> AsyncIterator[Kopf]:
    """Run kopf against a fake API server until the block ends, with `webhook` as an admission webhook too."""
    session, app = Kopf(), web.Application()
    app.router.add_route("*", "/{path:.*}", session.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    session.server = f"http://127.0.0.1:{runner.addresses[0][1]}"
    settings = handlers.settings()
    settings.watching.initial_streaming = streaming
    settings.process.ultimate_exiting_timeout = None
    if webhook:
        settings.admission.server = session.serve
    session.running = asyncio.create_task(
        kopf.operator(
            registry=handlers.registry(session, webhook=webhook),
            settings=settings,
            standalone=True,
            identity="test",  # type: ignore[arg-type]
            clusterwide=True,
        )
    )
    try:
        yield session
    finally:
        session.running.cancel()  # in order would take kopf five seconds: it waits for the tasks of this server
        with suppress(Exception, asyncio.CancelledError):
            await session.running
        await runner.cleanup()
