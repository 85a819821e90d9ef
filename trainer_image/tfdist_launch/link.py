"""Connections between launchers: lines over TCP, with a sign of life each second, and lost when there is none.

The shell around the two state machines: it numbers connections, tells the machines what arrives, and sends what they
say. A connection that brings nothing for a lease is lost in silence; one that the other side has closed is lost at
once, for then the other side knows it too.
"""

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import Callable
from typing import Final

from tfdist_launch.member import LEASE_SECONDS
from tfdist_launch.messages import LONGEST_LINE, Hello, Message, Ping, decode, encode
from tfdist_trainer import log

PING_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 0.2
RESOLVE_SECONDS: Final = 30.0
"""A name server that loses one question is asked again after 5 s; shorter than that, and no name is ever found."""
CONNECT_SECONDS: Final = 3.0
"""For each address of a name."""
SAY_SECONDS: Final = 10.0
FLUSH_SECONDS: Final = 2.0

OnMessage = Callable[[Message], None]


async def listen_to(reader: asyncio.StreamReader, on_message: OnMessage) -> bool:
    """Pass on every message until the connection is lost; return whether it was lost in silence."""
    while True:
        try:
            line = await asyncio.wait_for(reader.readline(), LEASE_SECONDS)
        except TimeoutError:
            return True
        except (OSError, ValueError):
            return False
        if not line.endswith(b"\n"):
            return False
        try:
            message = decode(line)
        except ValueError:
            log.event("message-not-understood", text=line[:100])
            continue
        on_message(message)


class Leading:
    """The leader's connections."""

    def __init__(
        self,
        on_hello: Callable[[int, Hello], None],
        on_message: Callable[[int, Message], None],
        on_loss: Callable[[int, bool], None],
    ) -> None:
        self._on_hello, self._on_message, self._on_loss = on_hello, on_message, on_loss
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._numbers = itertools.count(1)
        self._empty = asyncio.Event()
        self._empty.set()

    async def serve(self, port: int) -> asyncio.Server:
        """Begin to listen.

        Raises:
            OSError: the port cannot be had.
        """
        server = await asyncio.start_server(self._greeted, port=port, limit=LONGEST_LINE)
        self._pinging = asyncio.create_task(self._ping())
        return server

    def send(self, link: int, message: Message) -> None:
        """Send a message; one over a lost connection is lost with it."""
        writer = self._writers.get(link)
        if writer is not None and not writer.is_closing():
            writer.write(encode(message))

    def close(self, link: int) -> None:
        """Close a connection after what has been sent."""
        writer = self._writers.pop(link, None)
        if writer is not None:
            writer.close()
        if not self._writers:
            self._empty.set()

    async def emptied(self, timeout_seconds: float) -> None:
        """Return when no connection is left, or after a while."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), timeout_seconds)

    async def _greeted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = next(self._numbers)
        self._writers[link] = writer
        self._empty.clear()
        greeted = False

        def pass_on(message: Message) -> None:
            nonlocal greeted
            if isinstance(message, Hello):
                greeted = True
                self._on_hello(link, message)
            elif greeted:
                self._on_message(link, message)

        silent = await listen_to(reader, pass_on)
        self.close(link)
        if greeted:
            self._on_loss(link, silent)

    async def _ping(self) -> None:
        while True:
            for link in list(self._writers):
                self.send(link, Ping())
            await asyncio.sleep(PING_SECONDS)


class Following:
    """A member's connection to its leader."""

    def __init__(self, address: str, on_message: OnMessage, on_loss: Callable[[bool], None]) -> None:
        host, _, port = address.rpartition(":")
        self._address, self._host, self._port = address, host.strip("[]"), int(port)
        self._on_message, self._on_loss = on_message, on_loss
        self._writer: asyncio.StreamWriter | None = None

    async def greet(self, hello: Hello, on_link: Callable[[], None]) -> None:
        """Find the leader, however long it takes, and follow it until it is lost."""
        reader, self._writer = await self._connect()
        self.send(hello)
        on_link()
        silent = await listen_to(reader, self._on_message)
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            self._on_loss(silent)

    def send(self, message: Message) -> None:
        """Send a message, if there is a connection."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(encode(message))

    async def flush(self) -> None:
        """Return when what was sent is on its way, or after a short while."""
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(self._writer.wait_closed(), FLUSH_SECONDS)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        said = begun
        while True:
            try:
                return await _opened(self._host, self._port)
            except OSError as error:
                if loop.time() - said >= SAY_SECONDS:
                    said = loop.time()
                    text = f"waiting for the launcher of member 0 at {self._address} for {said - begun:.0f} s: {error}"
                    log.event("waiting", message=text)
            await asyncio.sleep(RETRY_SECONDS)


async def _opened(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection to the first address of a host that answers.

    Raises:
        OSError: none does, or the host has none; the text says which were tried.
    """
    asking = asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    try:
        found = await asyncio.wait_for(asking, RESOLVE_SECONDS)
    except TimeoutError:
        raise OSError(f"the name server does not answer within {RESOLVE_SECONDS:.0f} s") from None
    tried = []
    for address in dict.fromkeys(str(place[4][0]) for place in found):
        try:
            opening = asyncio.open_connection(address, port, limit=LONGEST_LINE)
            return await asyncio.wait_for(opening, CONNECT_SECONDS)
        except TimeoutError:
            tried.append(f"{address} does not answer")
        except OSError as error:
            tried.append(f"{address}: {os.strerror(error.errno) if error.errno else error}")
    raise OSError("; ".join(tried) or "its name has no address")
