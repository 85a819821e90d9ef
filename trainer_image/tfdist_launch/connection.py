"""Connections between launchers: lines over TCP, with a message each second and a lease.

The I/O shell around the two state machines: it numbers connections, passes on received messages and sends the answers.
A connection that receives nothing for a lease is lost with `lease_expired`; a connection that the other side has closed
is lost without, because then the other side has detected the loss.
"""

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import Callable
from typing import Final

from tfdist_launch.handshake import (
    MAX_HANDSHAKE_BYTES,
    HandshakeError,
    ProtocolMismatchError,
    authenticate_member,
    authenticate_to_leader,
)
from tfdist_launch.member import LEASE_SECONDS
from tfdist_launch.messages import MAX_MESSAGE_BYTES, Hello, LauncherRejected, LineReader, Message, Ping, decode, encode
from tfdist_trainer import log

PING_INTERVAL_SECONDS: Final = 1.0
CONNECT_RETRY_SECONDS: Final = 0.2
RESOLVE_TIMEOUT_SECONDS: Final = 30.0
"""A resolver repeats a lost query after 5 s: a shorter timeout would never find the name."""
CONNECT_TIMEOUT_SECONDS: Final = 3.0
"""For each address of a name."""
HANDSHAKE_RETRY_SECONDS: Final = 2.0
"""Until a member connects again after a failed handshake: another pod may have got the address of a deleted one."""
PROTOCOL_MISMATCH_SECONDS: Final = 20.0
"""A leader that has another version for this time is not another pod at an old address of the leader."""
MAX_PENDING: Final = 256
"""Connections, in addition to one for each member, that may be in the handshake."""
LOG_INTERVAL_SECONDS: Final = 10.0
FLUSH_TIMEOUT_SECONDS: Final = 2.0

OnMessage = Callable[[Message], None]


async def receive_messages(lines: LineReader, on_message: OnMessage) -> bool:
    """Pass on every message until the connection is lost; return whether its lease has expired."""
    while True:
        try:
            # The lease: a peer sends a message each second, so silence for this long is a lost connection.
            async with asyncio.timeout(LEASE_SECONDS):
                line = await lines.next(MAX_MESSAGE_BYTES)
        except TimeoutError:
            return True
        except (OSError, EOFError, ValueError):
            return False
        try:
            message = decode(line)
        except ValueError:
            # One unknown message does not end a gang: a later version may send more kinds.
            log.event("invalid-message", text=line[:100])
            continue
        on_message(message)


class LeaderServer:
    """The server of the leader, with the connections of its members."""

    def __init__(
        self,
        on_hello: Callable[[int, Hello], None],
        on_message: Callable[[int, Message], None],
        on_loss: Callable[[int, bool], None],
        *,
        token: str,
        members: int = 1,
    ) -> None:
        """Accept members that have the token; with None, any member (an old controller gives no token)."""
        self._on_hello, self._on_message, self._on_loss = on_hello, on_message, on_loss
        self._token, self._max_pending = token, MAX_PENDING + members
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._pending: dict[int, asyncio.StreamWriter] = {}
        """Connections in the handshake, the oldest first."""
        self._rejected, self._logged_at = 0, float("-inf")
        self._numbers = itertools.count(1)
        self._empty = asyncio.Event()
        self._empty.set()

    async def serve(self, port: int) -> asyncio.Server:
        """Begin to listen.

        Raises:
            OSError: the port is not available.
        """
        server = await asyncio.start_server(self._serve_member, port=port, limit=MAX_HANDSHAKE_BYTES)
        self._pinging = asyncio.create_task(self._send_pings())
        return server

    def send(self, link: int, message: Message) -> None:
        """Send a message; a message over a lost connection is lost with it."""
        writer = self._writers.get(link)
        if writer is not None and not writer.is_closing():
            writer.write(encode(message))

    def close(self, link: int) -> None:
        """Close a connection after everything queued has been sent."""
        writer = self._writers.pop(link, None)
        if writer is not None:
            writer.close()
        if not self._writers:
            self._empty.set()

    async def wait_until_empty(self, timeout_seconds: float) -> None:
        """Return when all connections are closed, at the latest after the timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._empty.wait()

    async def _serve_member(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link, lines = next(self._numbers), LineReader(reader)
        hello = await self._authenticate(link, lines, writer)
        if hello is None:
            return
        # Only now: a peer that has not proved the token gets no messages.
        self._writers[link] = writer
        self._empty.clear()
        self._on_hello(link, hello)
        lease_expired = await receive_messages(lines, lambda message: self._on_message(link, message))
        # Closed before the leader hears of it, so that no effect of the loss is sent over this connection.
        self.close(link)
        self._on_loss(link, lease_expired)

    async def _authenticate(self, link: int, lines: LineReader, writer: asyncio.StreamWriter) -> Hello | None:
        """Return the `Hello` of a member; disconnect any other peer.

        A member can connect however many connections are pending: its handshake takes milliseconds, and the oldest
        pending connection is dropped.
        """
        self._pending[link] = writer
        # The oldest pending connection goes: a real member answers within milliseconds, a port scan never.
        if len(self._pending) > self._max_pending:
            self._pending.pop(next(iter(self._pending))).transport.abort()
        try:
            return await authenticate_member(lines, writer, self._token)
        except ProtocolMismatchError as error:
            # Another version of TFDist is told why; a peer without the token learns nothing.
            writer.write(encode(LauncherRejected(reason=str(error))))
            writer.close()
            self._log_rejected(writer, error)
        except HandshakeError as error:
            writer.transport.abort()
            self._log_rejected(writer, error)
        finally:
            self._pending.pop(link, None)
        return None

    def _log_rejected(self, writer: asyncio.StreamWriter, error: HandshakeError) -> None:
        """Log rejected connections, at most once in `LOG_INTERVAL_SECONDS`: a port scan must not fill the log."""
        self._rejected += 1
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= LOG_INTERVAL_SECONDS:
            address = writer.get_extra_info("peername") or ("?",)
            log.event("connection-rejected", address=address[0], reason=str(error), connections=self._rejected)
            self._rejected, self._logged_at = 0, now

    async def _send_pings(self) -> None:
        while True:
            for link in list(self._writers):
                self.send(link, Ping())
            await asyncio.sleep(PING_INTERVAL_SECONDS)


class LeaderClient:
    """The connection of a member to its leader."""

    def __init__(
        self,
        address: str,
        on_message: OnMessage,
        on_loss: Callable[[bool], None],
        *,
        token: str,
        on_protocol_mismatch: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_protocol_mismatch` is called when the leader has another version for `PROTOCOL_MISMATCH_SECONDS`."""
        host, _, port = address.rpartition(":")
        self._address, self._host, self._port = address, host.strip("[]"), int(port)
        self._on_message, self._on_loss = on_message, on_loss
        self._token, self._on_protocol_mismatch = token, on_protocol_mismatch
        self._writer: asyncio.StreamWriter | None = None

    async def connect(self, hello: Hello, on_connected: Callable[[], None]) -> None:
        """Connect to the leader, without a time limit, and receive its messages until the connection is lost."""
        # The name of the leader may resolve to another pod for a while: only a proved leader counts as connected.
        lines, self._writer = await self._authenticate(hello)
        on_connected()
        lease_expired = await receive_messages(lines, self._on_message)
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            self._on_loss(lease_expired)

    async def _authenticate(self, hello: Hello) -> tuple[LineReader, asyncio.StreamWriter]:
        """Return a connection whose handshake is complete."""
        loop = asyncio.get_running_loop()
        mismatch_since, logged_at = None, float("-inf")
        while True:
            reader, writer = await self._connect()
            lines = LineReader(reader)
            try:
                await authenticate_to_leader(lines, writer, hello, self._token)
            except HandshakeError as error:
                writer.transport.abort()
                if loop.time() - logged_at >= LOG_INTERVAL_SECONDS:
                    logged_at = loop.time()
                    text = f"the handshake with the launcher of member 0 at {self._address} failed: {error}"
                    log.event("waiting", message=text)
                mismatch = isinstance(error, ProtocolMismatchError)
                # A mismatch may be another job's launcher at an old address: only one that lasts is a wrong image.
                mismatch_since = (mismatch_since or loop.time()) if mismatch else None
                if mismatch_since is not None and loop.time() - mismatch_since >= PROTOCOL_MISMATCH_SECONDS:
                    self._on_protocol_mismatch(str(error))
            else:
                return lines, writer
            await asyncio.sleep(HANDSHAKE_RETRY_SECONDS)

    def send(self, message: Message) -> None:
        """Send a message, if there is a connection."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(encode(message))

    async def flush(self) -> None:
        """Close the connection; return when everything queued is sent, at the latest after `FLUSH_TIMEOUT_SECONDS`."""
        if self._writer is not None:
            # Asyncio sends what is queued before it closes.
            self._writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(FLUSH_TIMEOUT_SECONDS):
                    await self._writer.wait_closed()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        started_at = logged_at = loop.time()
        while True:
            try:
                return await _open_connection(self._host, self._port)
            except OSError as error:
                if loop.time() - logged_at >= LOG_INTERVAL_SECONDS:
                    logged_at = loop.time()
                    seconds = f"{logged_at - started_at:.0f} s"
                    text = f"waiting for the launcher of member 0 at {self._address} for {seconds}: {error}"
                    log.event("waiting", message=text)
            await asyncio.sleep(CONNECT_RETRY_SECONDS)


async def _open_connection(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection to the first address of a host that accepts one.

    Raises:
        OSError: none accepts one, or the host has no address; the text names the addresses that were tried.
    """
    try:
        async with asyncio.timeout(RESOLVE_TIMEOUT_SECONDS):
            entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise OSError(f"the name server does not answer within {RESOLVE_TIMEOUT_SECONDS:.0f} s") from None
    errors = []
    # One after the other, each with its own limit: the record of a deleted pod may come first and not answer.
    for address in dict.fromkeys(str(entry[4][0]) for entry in entries):
        try:
            # not `wait_for`: in Python 3.11 it ignores a cancellation when the connection opens at the same moment
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                return await asyncio.open_connection(address, port, limit=MAX_HANDSHAKE_BYTES)
        except TimeoutError:
            errors.append(f"{address} does not answer")
        except OSError as error:
            errors.append(f"{address}: {os.strerror(error.errno) if error.errno else error}")
    raise OSError("; ".join(errors) or "its name has no address")
