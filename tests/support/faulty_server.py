"""An HTTP proxy in front of a server that answers some requests with an error, breaks off a body, or sends nothing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import unquote, urlsplit

from support.gcs_xml import POLL_SECONDS

_PIECE = 1 << 16
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding"})


@dataclass
class Fault:
    """What happens to the next `times` requests whose method, path and query contain `target`."""

    kind: Literal["status", "cut", "stall", "cut upload", "lose answer", "hold"]
    """`cut upload`: the connection ends within the body of the request. `lose answer`: it ends after the server has
    answered. `hold`: the request is not forwarded until the proxy ends."""
    times: int
    target: str = ""
    status: int = 503
    after_bytes: int = 0
    """Of the body, for `cut` and `stall`."""
    after_requests: int = 0
    """Number of such requests that come first, and have no fault."""


@dataclass
class FaultyServer:
    """The proxy, and the requests that it has had."""

    url: str = ""
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """Method, path and query of each, in order."""
    held: threading.Event = field(default_factory=threading.Event)
    """Set when a request is held."""
    stopped: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, target: str) -> int:
        """Return the number of requests whose path and query contain `target`."""
        return sum(target in request for request in self.requests)

    def next_fault(self, request: str) -> Fault | None:
        """Record a request, and return the fault that it has."""
        with self._lock:
            self.requests.append(request)
            for fault in self.faults:
                if fault.times == 0 or fault.target not in request:
                    continue
                if fault.after_requests > 0:
                    fault.after_requests -= 1
                    continue
                fault.times -= 1
                return fault
        return None


@contextmanager
def faulty_server(server: str, *, keep_host: bool) -> Iterator[FaultyServer]:
    """Run a proxy to the server with the URL `server` until the block ends.

    Args:
        server: its URL.
        keep_host: whether the server gets the host that the client has asked for, which is a part of S3's signature;
            otherwise it gets its own.
    """
    proxy = FaultyServer()
    listener = ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy, urlsplit(server).netloc, keep_host=keep_host))
    listener.daemon_threads = True
    proxy.url = f"http://127.0.0.1:{listener.server_port}"
    thread = threading.Thread(target=listener.serve_forever, args=(POLL_SECONDS,))
    thread.start()
    try:
        yield proxy
    finally:
        proxy.stopped.set()
        listener.shutdown()
        thread.join()
        listener.server_close()


def _handler(proxy: FaultyServer, target: str, *, keep_host: bool) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fault = proxy.next_fault(f"{self.command} {unquote(self.path)}")
            self.close_connection = True
            if fault is not None and fault.kind == "cut upload":
                self.rfile.read(1)
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if fault is not None and fault.kind == "hold":
                proxy.held.set()
                proxy.stopped.wait(60)
                return
            if fault is not None and fault.kind == "status":
                self.send_response(fault.status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            connection = HTTPConnection(target)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, target if name.lower() == "host" and not keep_host else value)
            connection.endheaders(body or None)
            with suppress(ConnectionError):  # of a client that is gone
                response = connection.getresponse()
                if fault is None or fault.kind != "lose answer":
                    self._answer(response, fault)
            connection.close()

        do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815  the names that the library calls

        def _answer(self, response: HTTPResponse, fault: Fault | None) -> None:
            self.send_response(response.status)
            for name, value in response.getheaders():
                if name.lower() not in _HOP_BY_HOP | {"date", "server"}:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            left = fault.after_bytes if fault is not None else None
            while left != 0 and (piece := response.read(_PIECE if left is None else min(_PIECE, left))):
                self.wfile.write(piece)
                left = None if left is None else left - len(piece)
            self.wfile.flush()
            if fault is not None and fault.kind == "stall":
                proxy.stopped.wait(60)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it so
            pass

    return Handler
