"""Local ports that lead to a port of a pod, through the API server, and the Python stacks that a replica serves at one.

A connection is one WebSocket: the data channel of the port, and a channel for the error of the kubelet
(`v4.channel.k8s.io`). One thread copies both directions, so that the TLS connection is never used by two threads. The
protocol cannot close one direction alone: after the end of the local input the answer is awaited for a few seconds.
"""

import contextlib
import errno
import os
import selectors
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import quote

from websocket import ABNF

from tfdist.client import websocket
from tfdist.client.api_server import ApiServer
from tfdist.client.errors import ClientError, NotPossible
from tfdist.client.replica_pods import ReplicaPod
from tfdist.contract import REPORT_PORT, STACKS_PATH
from tfdist.printable import printable
from tfdist.report_response import SEGMENT_BYTES, ReportResponse, ResponseError, report_request

HOST: Final = "127.0.0.1"
REJECTED: Final = os.strerror(errno.ECONNREFUSED).lower()
"""Error of a port without a listener."""

_DATA: Final = b"\0"
_PORT_BYTES: Final = 2
"""Size of the first message of each channel: the number of the port, little-endian."""
_SEGMENT_BYTES: Final = 16 * 1024
"""Small enough that a frame fits into the buffer of a connection that can be written to."""
_BUFFER_BYTES: Final = 1 << 20
"""Received and not yet taken by the local side; beyond it nothing more is read."""
_LAST_ANSWER_SECONDS: Final = 5.0

_MAX_BYTES: Final = 4 << 20
_NOT_SERVED: Final = (
    f"serves no stacks on port {REPORT_PORT}: a program in an image of its own does not, nor does a script that is the "
    "only replica before its first report; there faulthandler.register(signal.SIGUSR1) in the program, and tfdist "
    "shell to send the signal, write them to the log"
)


class PortForward:
    """Accepts connections on a local port until it is closed.

    Args:
        api: the API server.
        find: returns the pod; called again when a connection fails, because the pod may have been replaced.
        port: the pod's port.
        local: port on 127.0.0.1; 0 for a free one.
        report: is called with a line about a connection that failed, in another thread.

    Raises:
        NotPossible: the local port cannot be used.
    """

    def __init__(
        self,
        api: ApiServer,
        find: Callable[[], ReplicaPod],
        port: int,
        local: int = 0,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._api, self._find, self._port, self._report = api, find, port, report
        self._pod: ReplicaPod | None = None
        self._reported = ""
        self._listener = _listener(local)
        self.local_port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name=f"port {self.local_port}", daemon=True).start()

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                local, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(local,), daemon=True).start()

    def _serve(self, local: socket.socket) -> None:
        with local:
            try:
                pod, remote = self._open()
                error = copy(local, remote)
            except ClientError as failure:
                self._failed(str(failure))
                return
            if error:
                self._failed(f"{pod.replica}, port {self._port}: {error}")
            else:
                self._reported = ""

    def _open(self) -> tuple[ReplicaPod, Any]:
        previous = self._pod
        if previous is not None:
            with contextlib.suppress(ClientError):
                return previous, open_port(self._api, previous, self._port)
        self._pod = pod = self._find()
        return pod, open_port(self._api, pod, self._port)

    def _failed(self, text: str) -> None:
        self._pod = None
        if text != self._reported:  # a browser tries again every few seconds
            self._reported = text
            self._report(text)


def open_port(api: ApiServer, pod: ReplicaPod, port: int) -> Any:
    """Return a connection to a port of a pod.

    Raises:
        ClientError: the API server rejects it, or does not answer.
    """
    namespace, name = pod.pod["metadata"]["namespace"], quote(pod.name, safe="")
    return websocket.open_port(api, f"/api/v1/namespaces/{namespace}/pods/{name}/portforward", port)


@contextlib.contextmanager
def connected(api: ApiServer, pod: ReplicaPod, port: int) -> Iterator[tuple[socket.socket, list[str]]]:
    """Yield a socket that is connected to a port of a pod, and a list to which the error of the connection is added.

    Raises:
        ClientError: the API server rejects it, or does not answer.
    """
    remote = open_port(api, pod, port)
    local_end, remote_end = socket.socketpair()
    failures: list[str] = []

    def run() -> None:
        with remote_end:
            if error := copy(remote_end, remote):
                failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        with local_end:
            yield local_end, failures
    finally:
        thread.join(_LAST_ANSWER_SECONDS)


def copy(local: socket.socket, remote: Any) -> str:
    """Copy both directions until one side closes; return the error of the connection, or ""."""
    connection = _Connection(local, remote)
    try:
        connection.run()
    except websocket.CONNECTION_ERRORS:
        pass  # cut: whoever uses the port connects again
    finally:
        with contextlib.suppress(*websocket.CONNECTION_ERRORS):
            remote.close(timeout=0)
    return connection.error


class _Connection:
    def __init__(self, local: socket.socket, remote: Any) -> None:
        self._local, self._remote = local, remote
        self._initialized: set[int] = set()
        self._received = bytearray()
        """For the local side."""
        self._sent = b""
        """For the remote side."""
        self._sends, self._receives = True, True
        self.error = ""

    def run(self) -> None:
        """Copy until the remote side has closed and all is delivered, or the local side is closed."""
        self._local.setblocking(False)
        while self._receives or self._received:
            local, remote = self._ready()
            if not (local or remote):
                return  # no answer after the end of the local input
            if local & selectors.EVENT_WRITE:
                del self._received[: self._local.send(self._received)]
            if local & selectors.EVENT_READ:
                self._sent = self._local.recv(_SEGMENT_BYTES)
                self._sends = bool(self._sent)
            if remote & selectors.EVENT_WRITE:
                self._remote.send_binary(_DATA + self._sent)
                self._sent = b""
            if remote & selectors.EVENT_READ:
                self._receive()

    def _ready(self) -> tuple[int, int]:
        """Wait until something can be done, and return the events of the local and of the remote side."""
        local = selectors.EVENT_WRITE * bool(self._received)
        local |= selectors.EVENT_READ * (self._sends and not self._sent)
        remote = selectors.EVENT_WRITE * bool(self._sent)
        remote |= selectors.EVENT_READ * (self._receives and len(self._received) < _BUFFER_BYTES)
        decrypted = bool(remote & selectors.EVENT_READ) and _is_pending(self._remote.sock)
        with selectors.DefaultSelector() as selector:
            for side, events in ((self._local, local), (self._remote.sock, remote)):
                if events:
                    selector.register(side, events)
            timeout = 0 if decrypted else None if self._sends or self._sent else _LAST_ANSWER_SECONDS
            events_by_socket = {key.fileobj: events for key, events in selector.select(timeout)}
        return events_by_socket.get(self._local, 0), events_by_socket.get(
            self._remote.sock, 0
        ) | selectors.EVENT_READ * decrypted

    def _receive(self) -> None:
        opcode, frame = self._remote.recv_data_frame(True)
        if opcode == ABNF.OPCODE_CLOSE:
            self._receives = self._sends = False
        elif opcode in {ABNF.OPCODE_BINARY, ABNF.OPCODE_TEXT} and frame.data:
            channel, data = frame.data[0], frame.data[1:]
            if channel not in self._initialized and len(data) == _PORT_BYTES:
                self._initialized.add(channel)
            elif channel == 0:
                self._received += data
            else:
                self.error = _reason(self.error + data.decode(errors="replace"))


def _is_pending(connection: Any) -> bool:
    """Return whether a TLS connection has decrypted bytes, which no selector reports."""
    return isinstance(connection, ssl.SSLSocket) and connection.pending() > 0


def _reason(text: str) -> str:
    """Return the error of a kubelet without the path of calls before the cause."""
    line = printable(" ".join(text.split()))
    return f"{REJECTED}: nothing listens there" if line.endswith(REJECTED) else line


def _listener(port: int) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise NotPossible(
            f"port {port} of {HOST} cannot be used ({error.strerror}): choose another one, or 0 for a free one"
        ) from None
    return listener


def stacks(api: ApiServer, pod: ReplicaPod, seconds: float) -> str:
    """Return the stacks of a replica that runs.

    Args:
        api: the API server.
        pod: the replica's pod.
        seconds: how long to wait for each part of the answer.

    Raises:
        NotPossible: the replica serves none, or does not answer in time.
        ClientError: the API server rejects the connection, or does not answer.
    """
    if not pod.is_running:
        raise NotPossible(f"does not run: pod {pod.name} is {pod.state}")
    response = ReportResponse(_MAX_BYTES)
    with connected(api, pod, REPORT_PORT) as (connection, failures):
        connection.settimeout(seconds)
        try:
            connection.sendall(report_request("localhost", REPORT_PORT, STACKS_PATH))
            while response.body is None:
                response.feed(connection.recv(SEGMENT_BYTES))
        except TimeoutError:
            raise NotPossible(f"does not answer within {seconds:g} s: --wait sets the seconds") from None
        except (ResponseError, OSError) as error:
            failure: ClientError | Exception = error
        else:
            return printable(response.body.decode(errors="replace")).rstrip()
    if response.began:
        raise NotPossible(f"gives an answer that cannot be read: {failure}")
    raise NotPossible(failures[0] if failures and not failures[0].startswith(REJECTED) else _NOT_SERVED)
