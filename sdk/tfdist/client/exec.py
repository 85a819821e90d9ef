"""A process in a container of a pod, through the API server: its input and output, and its exit code."""

import contextlib
import json
import os
import select
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from tfdist.client import websocket
from tfdist.client.api_server import ApiServer, Json
from tfdist.client.errors import NoCluster, NotPossible
from tfdist.client.replica_pods import ReplicaPod
from tfdist.contract import MAIN_CONTAINER
from tfdist.printable import printable

SHELL: Final = ("sh", "-c", "if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh")
"""Command that is bash if the image has it."""

_STDIN, _STDOUT, _STDERR, _RESULT, _SIZE = range(5)
"""Channels of `v4.channel.k8s.io` and `v5.channel.k8s.io`."""
_SEGMENT_BYTES: Final = 16 * 1024
_POLL_SECONDS: Final = 0.2
"""How soon a changed size of the terminal is sent: a signal does not always end the wait."""

Size = tuple[int, int]
"""Columns and lines."""


@dataclass(frozen=True, slots=True)
class Streams:
    """Where input comes from, and output goes."""

    stdin: int | None
    """File descriptor; None for no input."""
    stdout: Callable[[bytes], object]
    stderr: Callable[[bytes], object]
    size: Callable[[], Size] | None = None
    """Returns the size of the terminal; None without a terminal."""


def run(api: ApiServer, pod: ReplicaPod, command: Sequence[str], streams: Streams) -> int:
    """Run a command in the container `tensorflow`, and return its exit code.

    Raises:
        NotPossible: the command cannot be started.
        NoCluster: the connection was cut.
        ClientError: the API server rejects it, or does not answer.
    """
    terminal = streams.size is not None
    query = [("command", each) for each in command]
    query += [("container", MAIN_CONTAINER), ("stdout", "true"), ("stderr", str(not terminal).lower())]
    query += [("stdin", str(streams.stdin is not None).lower()), ("tty", str(terminal).lower())]
    namespace, name = pod.pod["metadata"]["namespace"], quote(pod.name, safe="")
    connection = websocket.open_exec(api, f"/api/v1/namespaces/{namespace}/pods/{name}/exec", query)
    try:
        return _Process(connection, streams).run(pod)
    finally:
        with contextlib.suppress(*websocket.CONNECTION_ERRORS):
            connection.close(timeout=0)


class _Process:
    def __init__(self, connection: Any, streams: Streams) -> None:
        self._connection, self._streams = connection, streams
        self._stdin = streams.stdin
        self._size: Size | None = None
        self._result = b""

    def run(self, pod: ReplicaPod) -> int:
        """Copy input and output until the process has ended, and return its exit code."""
        cause = ""
        while self._connection.is_open() and not cause:
            try:
                self._wait()
                self._connection.update(timeout=0)
            except websocket.CONNECTION_ERRORS as error:
                cause = f": {' '.join(str(error).split()) or type(error).__name__}"
            self._deliver()
        if not self._result:
            raise NoCluster(f"the connection to {pod.replica} (pod {pod.name}) was cut{cause}")
        return exit_code(json.loads(self._result), pod)

    def _wait(self) -> None:
        """Wait for input or output, and send input and the size of the terminal."""
        poll = select.poll()
        poll.register(self._connection.sock.sock, select.POLLIN)
        if self._stdin is not None:
            poll.register(self._stdin, select.POLLIN)
        ready = dict(poll.poll(0 if _has_decrypted(self._connection.sock.sock) else 1000 * _POLL_SECONDS))
        try:
            self._send_size()
            if self._stdin is not None and self._stdin in ready:
                self._send_input(self._stdin)
        except websocket.CONNECTION_ERRORS:
            self._stdin = None  # the process has ended; its last output is still to be received

    def _send_size(self) -> None:
        size = self._streams.size() if self._streams.size else None
        if size is not None and size != self._size:
            self._size = size
            text = json.dumps({"Width": size[0], "Height": size[1]})
            self._connection.write_channel(_SIZE, text.encode())

    def _send_input(self, stdin: int) -> None:
        data = os.read(stdin, _SEGMENT_BYTES)
        if data:
            self._connection.write_channel(_STDIN, data)
        else:
            self._stdin = None
            self._connection.close_channel(_STDIN)

    def _deliver(self) -> None:
        for channel, write in ((_STDOUT, self._streams.stdout), (_STDERR, self._streams.stderr)):
            if data := self._received(channel):
                write(data)
        self._result += self._received(_RESULT)

    def _received(self, channel: int) -> bytes:
        try:
            data: bytes = self._connection.read_channel(channel)
        except websocket.CONNECTION_ERRORS:
            return b""  # the next wait reports it
        return data


def exit_code(status: Json, pod: ReplicaPod) -> int:
    """Return the exit code in the last message of a process, a Status of Kubernetes.

    Raises:
        NotPossible: the process has not been started.
    """
    if status.get("status") == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or ()
    code = next((str(cause.get("message")) for cause in causes if cause.get("reason") == "ExitCode"), "")
    if code.isdecimal():
        return int(code)
    message = printable(" ".join(str(status.get("message")).split()))
    raise NotPossible(f"{pod.replica} (pod {pod.name}) cannot run the command: {message}")


def _has_decrypted(connection: Any) -> bool:
    return isinstance(connection, ssl.SSLSocket) and connection.pending() > 0
