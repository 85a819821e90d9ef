"""The response of a replica's report port, parsed while every byte counts against one limit.

Replicas are untrusted. An HTTP library limits the body, but not what its parser reads before it: interim responses
(RFC 9110, 15.2), header fields, chunk extensions and trailers (RFC 9112, 7.1). Here a response is one head and one
body without transfer coding, which is what trainer and launcher send; anything else is rejected at its first line.
"""

from collections.abc import Iterator
from typing import Final

MAX_HEAD_BYTES: Final = 8 * 1024
"""Limit of the status line and all header fields together."""
SEGMENT_BYTES: Final = 64 * 1024
"""The most bytes to receive at once."""

_END_OF_HEAD: Final = b"\r\n\r\n"
_MAX_DIGITS: Final = 12
"""Of a Content-Length: more than any limit has."""
_UNSUPPORTED: Final = (b"transfer-encoding", b"content-encoding")


class ResponseError(ValueError):
    """The bytes of a replica are not an acceptable response; the message says why."""


def report_request(host: str, port: int, path: str) -> bytes:
    """Return the request of `path` at an IP address and port; the replica closes the connection after its response."""
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    fields = (f"GET {path} HTTP/1.1", f"Host: {authority}", "Accept-Encoding: identity", "Connection: close", "", "")
    return "\r\n".join(fields).encode("ascii")


class ReportResponse:
    """A response that is being received: `feed` takes its segments until `body` is whole.

    Args:
        max_body_bytes: limit of the body. With `MAX_HEAD_BYTES` it bounds all that is ever stored, and with it the time
            of parsing: each byte is read a constant number of times.
    """

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._received = bytearray()
        self._body_at = 0
        self._length: int | None = None
        self.body: bytes | None = None
        """The body once it is whole."""

    @property
    def began(self) -> bool:
        """Whether any byte was received."""
        return bool(self._received)

    def feed(self, segment: bytes) -> None:
        """Add the next bytes; an empty segment is the end of the connection.

        Raises:
            ResponseError: this is not a response with status 200 and a plain body within the limit, or it has ended
                early.
        """
        offset = max(0, len(self._received) - len(_END_OF_HEAD))
        self._received += segment
        if not self._body_at:
            self._parse_head(offset)
        if self._body_at:
            self._parse_body(ended=not segment)
        elif not segment:
            raise ResponseError("the connection ended before the end of the header fields")

    def _parse_head(self, offset: int) -> None:
        end = self._received.find(_END_OF_HEAD, offset, MAX_HEAD_BYTES)
        line = self._received.find(b"\r\n", 0, MAX_HEAD_BYTES)
        if line >= 0:
            _check_status(bytes(self._received[:line]))
        if end < 0:
            if len(self._received) >= MAX_HEAD_BYTES:
                raise ResponseError(f"more than {MAX_HEAD_BYTES} bytes of header fields")
            return
        self._length = _content_length(bytes(self._received[line : end + 2]))
        self._body_at = end + len(_END_OF_HEAD)

    def _parse_body(self, *, ended: bool) -> None:
        length = len(self._received) - self._body_at
        expected = length if self._length is None else self._length
        if max(length, expected) > self._max_body_bytes:
            raise ResponseError(f"more than {self._max_body_bytes} bytes of body")
        if length > expected:
            raise ResponseError("more bytes than Content-Length announces")
        if length == expected and (ended or self._length is not None):
            self.body = bytes(self._received[self._body_at :])
        elif ended:
            raise ResponseError(f"the connection ended after {length} of {expected} bytes of body")


def _check_status(line: bytes) -> None:
    """Reject every response but 200: of an interim response already the first line."""
    version, _, reason = line.partition(b" ")
    if version not in {b"HTTP/1.0", b"HTTP/1.1"}:
        raise ResponseError("not HTTP/1")
    if reason.split(b" ", 1)[0] != b"200":
        raise ResponseError(f"status {reason[:40].decode('ascii', 'replace')}")


def _content_length(head: bytes) -> int | None:
    """Return the length of the body; None for a body that lasts until the connection ends."""
    length: int | None = None
    for name, value in _fields(head):
        if name in _UNSUPPORTED and value.lower() != b"identity":
            raise ResponseError(f"{name.decode()} is not accepted")
        if name == b"content-length":
            if length is not None or not value.isdigit() or len(value) > _MAX_DIGITS:
                raise ResponseError("Content-Length is not a number, or is given twice")
            length = int(value)
    return length


def _fields(head: bytes) -> Iterator[tuple[bytes, bytes]]:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        yield name.strip().lower(), value.strip()
