"""The reports of the training processes of fake pods: each has an address of this machine that serves its report."""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import requests

from support.api import PODS, Api
from support.polling import wait_for
from tfdist.contract import REPORT_PORT, Phase, Role
from tfdist.contract_reports import ProgressReport

Reporter = Callable[[], ProgressReport]

ADDRESSES: Final = (f"127.77.{n // 250}.{n % 250 + 1}" for n in itertools.count())
"""All of 127.0.0.0/8 is this machine's, so the one report port serves for many pods."""


def report(step: int, total_steps: int, examples_per_second: float, step_time_millis: float) -> ProgressReport:
    """Return the report of the first worker of a job's first attempt."""
    return ProgressReport(
        role=Role.WORKER,
        index=0,
        attempt=0,
        phase=Phase.TRAINING,
        step=step,
        total_steps=total_steps,
        examples_per_second=examples_per_second,
        step_time_millis=step_time_millis,
        metrics={"loss": 0.5},
    )


class Trainers:
    """The coordinators that speak."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._servers: list[ThreadingHTTPServer] = []

    def serve(self, pod: str, reporter: Reporter) -> None:
        """Give a pod that runs an address, that from now on serves the report that `reporter` returns."""
        server = self._server(reporter)
        self.move(pod, str(server.server_address[0]))

    def move(self, pod: str, ip: str) -> None:
        """Give a pod that runs another address."""
        path = f"{PODS.format(ns=self._namespace)}/{pod}"
        wait_for(f"{pod} to run", lambda: _runs(self._api.send("GET", path)))
        self._api.do("PATCH", f"{path}/status", {"status": {"podIP": ip, "podIPs": [{"ip": ip}]}}, "merge-patch")

    def _server(self, reporter: Reporter) -> ThreadingHTTPServer:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = reporter().to_json().encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer((next(ADDRESSES), REPORT_PORT), Handler)
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def close(self) -> None:
        """Speak no more."""
        for server in self._servers:
            server.shutdown()
            server.server_close()


def _runs(answer: requests.Response) -> bool:
    return answer.ok and answer.json()["status"].get("phase") == "Running"


@contextmanager
def trainers(api: Api, namespace: str) -> Iterator[Trainers]:
    """Let programs speak until the block ends."""
    running = Trainers(api, namespace)
    try:
        yield running
    finally:
        running.close()
