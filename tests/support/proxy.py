"""A TCP proxy that can be cut: bytes are then dropped, and neither side gets an error, as when a network breaks."""

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

_PIECE = 65536


class Proxy:
    """Forwards connections on `address` to one server while it is not cut."""

    def __init__(self, server: str) -> None:
        parts = urlsplit(server)
        assert parts.hostname is not None
        assert parts.port is not None
        self._target = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self._selector = selectors.DefaultSelector()
        self._peers: dict[socket.socket, socket.socket] = {}
        self._connected = threading.Event()
        self._connected.set()
        self._ending = False
        self.forwarded_bytes = 0
        """In both directions."""

    def close_connections(self) -> None:
        """Close all open connections, as a load balancer does with idle ones; new ones are forwarded.

        Those are closed too whose receiver reads nothing, so that `run` waits for it.
        """
        for each in list(self._peers):
            with suppress(OSError):  # it is closed already
                each.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Forward nothing from now on, in either direction, and close nothing."""
        self._connected.clear()

    def run(self) -> None:
        """Forward until ended."""
        self._selector.register(self._listener, selectors.EVENT_READ)
        while not self._ending:
            for key, _ in self._selector.select(timeout=0.05):
                if not self._connected.is_set():
                    break
                self._serve(key.fileobj)
            if not self._connected.is_set():
                self._connected.wait(0.05)

    def end(self) -> None:
        """Close everything."""
        self._ending = True

    def close(self) -> None:
        """Close what is open; the thread of `run` has ended."""
        for opened in (self._listener, *self._peers):
            opened.close()
        self._selector.close()

    def _serve(self, ready: object) -> None:
        assert isinstance(ready, socket.socket)
        if ready is self._listener:
            client, _ = self._listener.accept()
            self._join(client, socket.create_connection(self._target))
            return
        if ready not in self._peers:
            return
        try:
            data = ready.recv(_PIECE)
            if data:
                self._peers[ready].sendall(data)
                self.forwarded_bytes += len(data)
        except OSError:
            data = b""
        if not data:
            self._part(ready)

    def _join(self, client: socket.socket, server: socket.socket) -> None:
        for one, other in ((client, server), (server, client)):
            self._peers[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _part(self, one: socket.socket) -> None:
        for closing in (one, self._peers[one]):
            with suppress(KeyError):
                self._selector.unregister(closing)
            self._peers.pop(closing, None)
            closing.close()


@contextmanager
def proxy(server: str) -> Iterator[Proxy]:
    """Run a proxy to `server` until the block ends."""
    forwarder = Proxy(server)
    thread = threading.Thread(target=forwarder.run)
    thread.start()
    try:
        yield forwarder
    finally:
        forwarder.end()
        thread.join()
        forwarder.close()
