"""The client: what a server that is overloaded brings about, and that a replica that does not lead writes nothing."""

from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web

from tfdist_operator.kube.client import Client
from tfdist_operator.kube.errors import NotLeading, Unavailable

Answer = Callable[[], web.Response]


class Time:
    """Passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Server:
    """A server on this machine that gives the next of `answers`, and success once there is none left."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked: list[str] = []
        self.address = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(request.method)
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
    await runner.cleanup()


def overloaded(status: int, **headers: str) -> Answer:
    return lambda: web.json_response({"message": "busy"}, status=status, headers=headers)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_refused_request_is_repeated_when_the_server_said(server: Server, status: int) -> None:
    server.answers = [overloaded(status, **{"Retry-After": "7"})]
    time = Time()
    async with Client(server.address, None, dict, clock=time.clock, sleep=time.sleep) as client:
        assert await client.request("GET", "/x", resource="pods") == {"ok": True}
    assert len(server.asked) == 2
    assert time.now >= 7


async def test_one_refusal_lets_every_request_wait_but_not_go_on_at_once(server: Server) -> None:
    server.answers = [overloaded(429, **{"Retry-After": "3"})]
    time = Time()
    async with Client(server.address, None, dict, clock=time.clock, sleep=time.sleep) as client:
        await client.request("GET", "/first", resource="pods")
        time.slept.clear()
        for _ in range(50):
            time.now = 0.0
            await client.request("GET", "/other", resource="pods")
    assert len(time.slept) == 50
    assert min(time.slept) >= 3
    assert max(time.slept) - min(time.slept) > 1


async def test_a_server_that_is_always_overloaded_is_given_up(server: Server) -> None:
    server.answers = [overloaded(429)] * 10
    time = Time()
    async with Client(server.address, None, dict, clock=time.clock, sleep=time.sleep) as client:
        with pytest.raises(Unavailable):
            await client.request("GET", "/x", resource="pods")
    assert len(server.asked) == 5


async def test_a_failure_without_a_date_is_told_at_once(server: Server) -> None:
    server.answers = [overloaded(503)]
    async with Client(server.address, None, dict) as client:
        with pytest.raises(Unavailable):
            await client.request("GET", "/x", resource="pods")
    assert len(server.asked) == 1


async def test_a_replica_that_does_not_lead_reads_but_writes_nothing(server: Server) -> None:
    async with Client(server.address, None, dict, may_write=lambda: False) as client:
        await client.request("GET", "/x", resource="pods")
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            with pytest.raises(NotLeading):
                await client.request(method, "/x", resource="pods", body={})
    assert server.asked == ["GET"]


async def test_leadership_that_ends_while_a_write_waits_stops_it(server: Server) -> None:
    leads = [True]
    async with Client(server.address, None, dict, may_write=lambda: leads[0]) as client:

        def refuse() -> web.Response:
            leads[0] = False
            return overloaded(429, **{"Retry-After": "0"})()

        server.answers = [refuse]
        with pytest.raises(NotLeading):
            await client.request("POST", "/x", resource="pods", body={})
    assert len(server.asked) == 1
