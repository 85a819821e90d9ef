"""An API server that answers lists, over HTTP as a process reads them, and a kubeconfig for it."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]


class _Handler(BaseHTTPRequestHandler):
    server: "ListServer"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(self.path)
        if path in self.server.silent:
            self.server.released.wait()
        items = self.server.lists.get(path)
        content = json.dumps({"items": items, "metadata": {}} if items is not None else {"message": "no"}).encode()
        self.send_response(200 if items is not None else 403)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


class ListServer(ThreadingHTTPServer):
    """An API server with lists by path; it does not answer about those in `silent` before it is released."""

    daemon_threads = True

    def __init__(self, lists: dict[str, list[Json]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lists = lists
        self.silent: set[str] = set()
        self.released = threading.Event()
        self.asked: list[str] = []

    @contextlib.contextmanager
    def running(self) -> Iterator["ListServer"]:
        """Answer requests until the end of the block."""
        with self:
            thread = threading.Thread(target=self.serve_forever)
            thread.start()
            try:
                yield self
            finally:
                self.released.set()
                self.shutdown()
                thread.join()

    def write_kubeconfig(self, path: Path, namespaces: dict[str, str]) -> None:
        """Write a kubeconfig with a context for each of the namespaces, by name; the first one is the current."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": next(iter(namespaces)),
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.server_port}"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [
                {"name": name, "context": {"cluster": "c", "user": "u", "namespace": namespace}}
                for name, namespace in namespaces.items()
            ],
        }
        path.write_text(yaml.safe_dump(config))
