"""Reads lines of bounded length from a connection, so that an unauthenticated peer cannot exhaust memory."""

import asyncio
from typing import Final

_BLOCK: Final = 1 << 14


class LineReader:
    """The lines of a stream."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._buffer = bytearray()

    async def next(self, max_bytes: int) -> bytes:
        """Return the next line. It may be cancelled and called again.

        Raises:
            ValueError: the line has more than `max_bytes` bytes.
            EOFError: the connection is closed.
            OSError: the connection is broken.
        """
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > max_bytes:
                break
            block = await self._reader.read(_BLOCK)
            if not block:
                raise EOFError
            self._buffer += block
        if end < 0 or end > max_bytes:
            raise ValueError(f"a line of more than {max_bytes} bytes")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line
