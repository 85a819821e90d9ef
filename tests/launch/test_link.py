"""How a launcher finds its leader: through a slow name server, and past addresses of pods that are gone."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.ports import free_ports

from tfdist_launch import link
from tfdist_launch.link import Following
from tfdist_launch.messages import Hello

HELLO = Hello(job="uid-1", seat=1, attempt=0, born=0.0, highest_round=-1)


@contextlib.asynccontextmanager
async def leader(port: int) -> AsyncIterator[asyncio.Event]:
    """Listen where the leader does; yield what is set when somebody has said something."""
    heard = asyncio.Event()

    async def greeted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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


async def comes(port: int) -> None:
    async with leader(port) as heard:
        following = Following(f"leader.job.team.svc:{port}", lambda _: None, lambda _: None)
        task = asyncio.create_task(following.greet(HELLO, lambda: None))
        await asyncio.wait_for(heard.wait(), 60)
        task.cancel()


def test_a_name_server_may_take_longer_than_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(link, "CONNECT_SECONDS", 0.2)

    def slow(*_: Any, **__: Any) -> list[Any]:
        time.sleep(0.5)
        return resolved_to("127.0.0.1")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    asyncio.run(comes(port))


def test_an_address_of_a_pod_that_is_gone_does_not_hide_that_of_its_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(link, "CONNECT_SECONDS", 0.2)
    # Nobody listens at the first, and from the second, which is for documentation, no answer can come.
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved_to("127.0.0.2", "192.0.2.1", "127.0.0.1"))
    asyncio.run(comes(port))


def test_who_waits_for_its_leader_says_what_was_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(link, "SAY_SECONDS", 0.0)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved_to("127.0.0.1"))

    async def wait() -> None:
        following = Following(f"leader.job.team.svc:{port}", lambda _: None, lambda _: None)
        task = asyncio.create_task(following.greet(HELLO, lambda: None))
        said = ""
        while not said:
            await asyncio.sleep(0.01)
            said = capsys.readouterr().out
        task.cancel()
        assert f"member 0 at leader.job.team.svc:{port} for 0 s: 127.0.0.1: Connection refused" in said

    asyncio.run(asyncio.wait_for(wait(), 60))
