"""Servers on this machine that answer as a hostile pod would at its report port."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import pytest

from tfdist import contract

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
HERE: Final = "127.0.0.1"


def ok(body: bytes, *headers: str) -> bytes:
    """Return a whole response with a body."""
    return "\r\n".join(["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers, "", ""]).encode() + body


def sends(*parts: bytes, every: float = 0.0) -> Answer:
    """Return an answer in parts, with a pause after each, that leaves the connection open."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(every)

    return answer


def sends_forever(head: bytes, part: bytes, every: float = 0.0) -> Answer:
    """Return an answer that never ends."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(every)

    return answer


_CHUNKED: Final = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAMS: Final[dict[str, Answer]] = {
    "interim responses": sends_forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "early hints": sends_forever(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 1000),
    "responses": sends_forever(b"", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" * 1000),
    "empty lines": sends_forever(b"", b"\r\n" * 10_000),
    "header fields": sends_forever(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 5000),
    "a header field": sends_forever(b"HTTP/1.1 200 OK\r\nX: ", b"y" * 50_000),
    "chunks": sends_forever(_CHUNKED, b"1\r\n0\r\n" * 10_000),
    "chunk extensions": sends_forever(_CHUNKED, b"1;a=b;c=d\r\n0\r\n" * 3000),
    "a chunk extension": sends_forever(_CHUNKED + b"1;", b"a" * 50_000),
    "trailers": sends_forever(_CHUNKED + b"0\r\n", b"X: y\r\n" * 5000),
    "a body without end": sends_forever(b"HTTP/1.1 200 OK\r\n\r\n", b"[" * 50_000),
    "single bytes": sends_forever(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n", b" "),
    "any bytes": sends_forever(b"", random.Random(1).randbytes(50_000)),  # noqa: S311  the same in each run
}
"""Streams without an end, of everything that an HTTP parser reads."""


@asynccontextmanager
async def pod(
    answer: Answer, requests: list[bytes] | None = None, address: tuple[str, int] = (HERE, 0)
) -> AsyncIterator[int]:
    """Serve an answer to each request on a free port, and note the requests, until the block ends."""
    open_: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if requests is not None:
                    requests.append(head)
                await answer(writer)

    server = await asyncio.start_server(serve, *address)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in open_:
            writer.close()


@asynccontextmanager
async def replica(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, requests: list[bytes] | None = None
) -> AsyncIterator[str]:
    """Have the replica at the address that is returned answer so at its report port."""
    async with pod(answer, requests) as port:
        monkeypatch.setattr(contract, "REPORT_PORT", port)
        yield HERE
