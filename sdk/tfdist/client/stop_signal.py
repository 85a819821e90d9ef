"""Ends requests of another thread: a read of a watch may otherwise take minutes."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Final

import urllib3

from tfdist.client.api_server import ApiServer
from tfdist.client.errors import ClientError
from tfdist.client.kubeconfig import Connection


class Stopped(ClientError):  # noqa: N818  no error: the one that waits has gone
    """The signal is set. It is not among the errors after which a request is repeated."""


class StopSignal:
    """Set once, from any thread; it ends the reads of the responses that are registered."""

    def __init__(self) -> None:
        self._set = threading.Event()
        self._lock: Final = threading.Lock()
        self._responses: list[urllib3.BaseHTTPResponse] = []

    def set(self) -> None:
        """Set the signal."""
        with self._lock:
            self._set.set()
            for response in self._responses:
                _end(response)

    def check(self) -> None:
        """Raise `Stopped` if the signal is set."""
        if self._set.is_set():
            raise Stopped

    def pause(self, seconds: float) -> None:
        """Wait, and raise `Stopped` as soon as the signal is set."""
        self._set.wait(seconds)
        self.check()

    @contextlib.contextmanager
    def ending(self, response: urllib3.BaseHTTPResponse) -> Iterator[None]:
        """Have the signal end the reads of a response within the block."""
        with self._lock:
            self.check()
            self._responses.append(response)
        try:
            yield
        finally:
            with self._lock:
                self._responses.remove(response)


class StoppableApiServer(ApiServer):
    """The same API server, whose requests raise `Stopped` when a signal is set."""

    def __init__(self, connection: Connection, stopped: StopSignal) -> None:
        super().__init__(connection)
        self._stopped = stopped

    @contextlib.contextmanager
    def _response(self, *request: Any) -> Iterator[urllib3.BaseHTTPResponse]:
        self._stopped.check()
        try:
            with super()._response(*request) as response, self._stopped.ending(response):
                yield response
        finally:
            self._stopped.check()


def _end(response: urllib3.BaseHTTPResponse) -> None:
    shutdown = getattr(response, "shutdown", None)
    with contextlib.suppress(OSError, ValueError):
        if shutdown is not None:
            shutdown()
