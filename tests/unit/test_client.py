"""The client: retries for an overloaded server, writes by the leader only, and the limit of open requests."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web

from tfdist import __version__
from tfdist_operator.kube.client import ApiClient
from tfdist_operator.kube.errors import NotLeadingError, SilentWatchError, UnavailableError

Answer = Callable[[], web.Response]


class Time:
    """A clock that advances only in `sleep`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Server:
    """A local server that returns the next of `answers`, and success after the last one."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked: list[str] = []
        self.requests: list[web.Request] = []
        self.address = ""
        self.holds = asyncio.Event()
        self.released = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request; a watch stays open, and the path `/held` is answered once `released` is set."""
        self.asked.append(request.method)
        self.requests.append(request)
        if "watch" in request.query:
            stream = web.StreamResponse(headers={"Content-Type": "application/json"})
            await stream.prepare(request)
            await self.released.wait()
            return stream
        if request.path == "/held":
            self.holds.set()
            await self.released.wait()
        return self.answers.pop(0)() if self.answers else web.json_response({"ok": True})


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    made.released.set()
    await runner.cleanup()


def overloaded(status: int, **headers: str) -> Answer:
    return lambda: web.json_response({"message": "busy"}, status=status, headers=headers)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_throttled_request_is_repeated_after_retry_after(server: Server, status: int) -> None:
    server.answers = [overloaded(status, **{"Retry-After": "7"})]
    time = Time()
    async with ApiClient(server.address, None, dict, clock=time.clock, sleep=time.sleep) as client:
        assert await client.request("GET", "/x", resource="pods") == {"ok": True}
    assert len(server.asked) == 2
    assert time.now >= 7


async def test_one_throttled_request_delays_all_requests_by_different_times(server: Server) -> None:
    server.answers = [overloaded(429, **{"Retry-After": "3"})]
    time = Time()
    async with ApiClient(server.address, None, dict, clock=time.clock, sleep=time.sleep) as client:
        await client.request("GET", "/first", resource="pods")
        time.slept.clear()
        for _ in range(50):
            time.now = 0.0
            await client.request("GET", "/other", resource="pods")
    assert len(time.slept) == 50
    assert min(time.slept) >= 3
    assert max(time.slept) - min(time.slept) > 1


async def test_requests_to_a_server_that_is_always_overloaded_end_with_an_error(server: Server) -> None:
    server.answers = [overloaded(429)] * 10
    time = Time()
    async with ApiClient(server.address, None, dict, clock=time.clock, sleep=time.sleep) as client:
        with pytest.raises(UnavailableError):
            await client.request("GET", "/x", resource="pods")
    assert len(server.asked) == 5


async def test_a_failure_without_retry_after_is_raised_at_once(server: Server) -> None:
    server.answers = [overloaded(503)]
    async with ApiClient(server.address, None, dict) as client:
        with pytest.raises(UnavailableError):
            await client.request("GET", "/x", resource="pods")
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("text", "raised"),
    [
        ("File descriptor 14 is used by transport <TCPTransport closed=False>", UnavailableError),
        ("an error of this program", RuntimeError),
    ],
)
async def test_a_socket_that_the_event_loop_rejects_for_a_moment_is_a_request_without_an_answer(
    server: Server, monkeypatch: pytest.MonkeyPatch, text: str, raised: type[Exception]
) -> None:
    async def rejects(*_: object) -> None:
        raise RuntimeError(text)

    async with ApiClient(server.address, None, dict) as client:
        monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", rejects)
        with pytest.raises(raised, match=text):
            await client.request("GET", "/x", resource="pods")


async def test_a_replica_that_is_not_the_leader_reads_and_does_not_write(server: Server) -> None:
    async with ApiClient(server.address, None, dict, may_write=lambda: False) as client:
        await client.request("GET", "/x", resource="pods")
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            with pytest.raises(NotLeadingError):
                await client.request(method, "/x", resource="pods", body={})
    assert server.asked == ["GET"]


async def test_leadership_that_ends_while_a_write_waits_stops_it(server: Server) -> None:
    leads = [True]
    async with ApiClient(server.address, None, dict, may_write=lambda: leads[0]) as client:

        def throttle() -> web.Response:
            leads[0] = False
            return overloaded(429, **{"Retry-After": "0"})()

        server.answers = [throttle]
        with pytest.raises(NotLeadingError):
            await client.request("POST", "/x", resource="pods", body={})
    assert len(server.asked) == 1


async def test_a_write_that_waits_for_a_connection_is_not_sent_once_leadership_has_ended(server: Server) -> None:
    """Given one connection, in use; when leadership ends, then the writes that wait for it are never sent."""
    leads = [True]
    async with ApiClient(server.address, None, dict, may_write=lambda: leads[0], connections=1) as client:
        first = asyncio.create_task(client.request("POST", "/held", resource="pods", body={}))
        await server.holds.wait()
        waiting = [asyncio.create_task(client.request("POST", "/x", resource="pods", body={})) for _ in range(3)]
        await asyncio.sleep(0)
        leads[0] = False
        server.released.set()
        await first
        assert [type(e) for e in await asyncio.gather(*waiting, return_exceptions=True)] == [NotLeadingError] * 3
    assert server.asked == ["POST"]


async def test_open_watches_leave_every_connection_to_requests(server: Server) -> None:
    """Given more open watches than connections; when a request is sent, then it is answered."""
    async with ApiClient(server.address, None, dict, connections=2, timeout_seconds=10) as client, asyncio.timeout(20):
        opened = [asyncio.Event() for _ in range(5)]

        async def watch(is_open: asyncio.Event) -> None:
            async with client.stream("/w", resource="pods", read_timeout_seconds=60, query={"watch": "1"}) as lines:
                is_open.set()
                await lines.read()

        watches = [asyncio.create_task(watch(is_open)) for is_open in opened]
        for is_open in opened:
            await is_open.wait()
        assert await client.request("POST", "/x", resource="pods", body={}) == {"ok": True}
        server.released.set()
        await asyncio.gather(*watches)


async def test_a_watch_that_receives_nothing_ends_as_silent(server: Server) -> None:
    async with ApiClient(server.address, None, dict) as client:
        with pytest.raises(SilentWatchError):
            async with client.stream("/w", resource="pods", read_timeout_seconds=0.05, query={"watch": "1"}) as lines:
                await lines.read()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_every_write_names_its_field_manager(server: Server, method: str) -> None:
    async with ApiClient(server.address, None, dict) as client:
        await client.request(method, "/x", resource="pods", body={}, query={"dryRun": "All"})
    assert dict(server.requests[0].query) == {"fieldManager": "tfdist-controller", "dryRun": "All"}


async def test_every_request_names_the_controller_and_its_version(server: Server) -> None:
    async with ApiClient(server.address, None, dict) as client:
        await client.request("GET", "/x", resource="pods")
        server.released.set()
        async with client.stream("/w", resource="pods", read_timeout_seconds=60, query={"watch": "1"}):
            pass
    assert {r.headers["User-Agent"] for r in server.requests} == {f"tfdist-controller/{__version__}"}


async def test_an_answer_that_is_nested_deeper_than_a_parser_reads_is_read_up_to_a_depth(server: Server) -> None:
    """Given a stored job nested 1,100 levels deep; when its status is written, then the answer is read."""
    deep = b'{"metadata": {"name": "deep"}, "spec": ' + b'{"a":' * 1100 + b"1" + b"}" * 1100 + b"}"
    server.answers = [lambda: web.Response(body=deep, content_type="application/json")]
    async with ApiClient(server.address, None, dict) as client:
        assert (await client.request("PATCH", "/x", resource="pods", body={}))["metadata"] == {"name": "deep"}


async def test_a_response_that_is_not_json_is_a_typed_error(server: Server) -> None:
    server.answers = [lambda: web.Response(body=b"{", content_type="application/json")]
    async with ApiClient(server.address, None, dict) as client:
        with pytest.raises(UnavailableError, match="not JSON"):
            await client.request("GET", "/x", resource="pods")
