"""Reads lines of bounded length from a connection, so that an unauthenticated peer cannot exhaust memory."""

import asyncio
from typing import Final

_BLOCK: Final = 1 << 14


class LineReader:
    """The lines of a stream."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._rest = bytearray()

    async def next(self, max_bytes: int) -> bytes:
        """Return the next line. It may be cancelled and called again.

        Raises:
            ValueError: the line has more than `max_bytes` bytes.
            EOFError: the connection is closed.
            OSError: the connection is broken.
        """
        searched = 0
        while (end := self._rest.find(b"\n", searched)) < 0:
            searched = len(self._rest)
            if searched > max_bytes:
                break
            block = await self._reader.read(_BLOCK)
            if not block:
                raise EOFError
            self._rest += block
        if end < 0 or end > max_bytes:
            raise ValueError(f"a line of more than {max_bytes} bytes")
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line
