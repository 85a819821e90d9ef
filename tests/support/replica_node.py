"""The servers of a replica on this machine, behind a kubelet that a user can open connections to."""

import contextlib
import http.server
import pathlib
import socket
import threading
from collections.abc import Iterator

from support.api import Api
from support.streaming_kubelet import StreamingNode, streaming_node
from tfdist.contract import REPORT_PORT, Phase, Role
from tfdist.contract_reports import ProgressReport
from tfdist_trainer import report_server
from tfdist_trainer.reporter import Reporter

ECHO_PORT = 7000
TENSORBOARD_PORT = 6006
PAGE = b"x" * 3_000_000
"""What TensorBoard's port answers."""


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@contextlib.contextmanager
def _echo() -> Iterator[int]:
    """Run a server that returns what it receives; yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                while data := connection.recv(65536):
                    connection.sendall(data)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]


@contextlib.contextmanager
def replica_node(api: Api, folder: pathlib.Path) -> Iterator[StreamingNode]:
    """Run a node whose pods serve reports, a page and what they receive, until the block ends."""
    first = ProgressReport(role=Role.WORKER, index=0, attempt=0, phase=Phase.TRAINING)
    reports = report_server.serve(Reporter(first), 0)
    pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    with _echo() as echo:
        ports = {REPORT_PORT: reports.server_port, TENSORBOARD_PORT: pages.server_port, ECHO_PORT: echo}
        with streaming_node(api, folder, ports) as node:
            yield node
