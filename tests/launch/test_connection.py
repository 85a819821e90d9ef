"""How a member connects to its leader: through a slow name server, and past addresses of deleted pods."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.handshakes import HELLO, TOKEN
from support.ports import free_ports

from tfdist_launch import connection
from tfdist_launch.connection import LeaderClient
from tfdist_launch.messages import Challenge, encode


@contextlib.asynccontextmanager
async def leader(port: int) -> AsyncIterator[asyncio.Event]:
    """Listen where the leader does; yield an event that is set when a line has arrived."""
    heard = asyncio.Event()

    async def greeted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(encode(Challenge(nonce="a")))
        if await reader.readline():
            heard.set()
        writer.close()

    server = await asyncio.start_server(greeted, "127.0.0.1", port)
    try:
        yield heard
    finally:
        server.close()


def resolved_to(*hosts: str) -> list[Any]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in hosts]


async def connects(port: int) -> None:
    async with leader(port) as heard:
        following = LeaderClient(f"leader.job.team.svc:{port}", lambda _: None, lambda _: None, token=TOKEN)
        task = asyncio.create_task(following.connect(HELLO, lambda: None))
        await asyncio.wait_for(heard.wait(), 60)
        task.cancel()


def test_a_name_server_may_take_longer_than_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_SECONDS", 0.2)

    def slow(*_: Any, **__: Any) -> list[Any]:
        time.sleep(0.5)
        return resolved_to("127.0.0.1")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    asyncio.run(connects(port))


def test_the_address_of_a_deleted_pod_does_not_hide_that_of_its_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_SECONDS", 0.2)
    # No server listens at the first; the second is reserved for documentation and never answers.
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved_to("127.0.0.2", "192.0.2.1", "127.0.0.1"))
    asyncio.run(connects(port))


def test_a_member_that_waits_for_its_leader_logs_the_addresses_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(connection, "LOG_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved_to("127.0.0.1"))

    async def wait() -> None:
        following = LeaderClient(f"leader.job.team.svc:{port}", lambda _: None, lambda _: None, token=TOKEN)
        task = asyncio.create_task(following.connect(HELLO, lambda: None))
        logged = ""
        while not logged:
            await asyncio.sleep(0.01)
            logged = capsys.readouterr().out
        task.cancel()
        assert f"member 0 at leader.job.team.svc:{port} for 0 s: 127.0.0.1: Connection refused" in logged

    asyncio.run(asyncio.wait_for(wait(), 60))


@pytest.mark.parametrize("turns", range(6))
def test_a_member_that_is_stopped_in_the_moment_of_its_connection_stops(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cancellation comes after so many turns of the event loop: before, while or after the connection opens."""

    async def test() -> None:
        opens, opened = asyncio.Event(), asyncio.Event()

        async def open_connection(*_: object, **__: object) -> None:
            opens.set()
            await opened.wait()

        monkeypatch.setattr(asyncio, "open_connection", open_connection)
        task = asyncio.create_task(connection._open_connection("127.0.0.1", 1))
        await opens.wait()
        opened.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        if task.cancel():
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(test())
