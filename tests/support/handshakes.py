"""Leaders, members and unauthenticated servers for tests of the handshake."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

from support.ports import free_ports
from tfdist_launch.connection import LeaderClient, LeaderServer
from tfdist_launch.messages import (
    Hello,
    Message,
    encode,
)

TOKEN: Final = "0123456789abcdef0123456789abcdef"  # noqa: S105  of the tests
HELLO: Final = Hello(job="uid-1", rank=1, attempt=0, started_at=1.5, highest_round=-1)


@dataclass
class Heard:
    """The messages that a leader has received from authenticated members."""

    hellos: list[Hello] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    losses: int = 0
    links: list[int] = field(default_factory=list)
    leading: LeaderServer | None = None

    def hello(self, number: int, hello: Hello) -> None:
        self.links.append(number)
        self.hellos.append(hello)

    def message(self, _: int, message: Message) -> None:
        self.messages.append(message)

    def loss(self, _: int, __: bool) -> None:
        self.losses += 1


@contextlib.asynccontextmanager
async def leading(token: str = TOKEN) -> AsyncIterator[tuple[int, Heard]]:
    """Run the server of a leader; yield its port and the received messages."""
    (port,) = free_ports(1)
    heard = Heard()
    heard.leading = LeaderServer(heard.hello, heard.message, heard.loss, token=token)
    server = await heard.leading.serve(port)
    try:
        yield port, heard
    finally:
        server.close()


@contextlib.asynccontextmanager
async def speaking(*lines: Message) -> AsyncIterator[tuple[int, list[bytearray]]]:
    """Run a server that sends messages and is no leader; yield its port and the bytes of each connection."""
    (port,) = free_ports(1)
    brought: list[bytearray] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        brought.append(received := bytearray())
        writer.writelines(encode(line) for line in lines)
        while chunk := await reader.read(1024):
            received.extend(chunk)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    try:
        yield port, brought
    finally:
        server.close()


@contextlib.asynccontextmanager
async def following(port: int, token: str = TOKEN, **options: Any) -> AsyncIterator[tuple[list[Message], Any]]:
    """Connect a member to its leader; yield its received messages, and an event that is set after the handshake."""
    messages: list[Message] = []
    admitted = asyncio.Event()
    member = LeaderClient(f"127.0.0.1:{port}", messages.append, lambda _: None, token=token, **options)
    task = asyncio.create_task(member.connect(HELLO, admitted.set))
    try:
        yield messages, admitted
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await member.flush()
