"""The report server: serves the progress of the replica over HTTP, from its own threads.

It starts before TensorFlow is imported, so that a replica responds within milliseconds of its start, and it never
waits for the training loop. `GET /v1/progress` is the report, `/metrics` the same for Prometheus, `/v1/stacks` the
Python stack of every thread, `/healthz` the liveness of the process.
"""

import contextlib
import sys
import threading
import traceback
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from tfdist.contract import HEALTH_PATH, PROGRESS_PATH, STACKS_PATH
from tfdist.contract_reports import MAX_REPORT_BYTES, ProgressReport
from tfdist_trainer.errors import UsageError
from tfdist_trainer.reporter import Reporter

METRICS_PATH: Final = "/metrics"

_GAUGES: Final = {
    "step": "Last finished step.",
    "total_steps": "Steps that training will have.",
    "epoch": "Epochs finished.",
    "examples": "Examples the gang has trained on.",
    "examples_per_second": "Examples per second of the gang.",
    "step_time_millis": "Mean duration of a recent step.",
    "input_wait_millis": "Mean time a recent step waited for input.",
    "exchange_wait_millis": "Mean time a recent step waited in the exchange of gradients.",
}


def serve(reporter: Reporter, port: int, stacks: Callable[[], str] | None = None) -> ThreadingHTTPServer:
    """Start the server on `port` (0 for a free one) and return it; its threads are daemons.

    `stacks` returns the stacks to serve; by default of this process.

    Raises:
        UsageError: the port cannot be bound.
    """
    try:
        server = ThreadingHTTPServer(("", port), _handler(reporter, stacks or stacks_text))
    except OSError as error:
        raise UsageError(f"TFDIST_REPORT_PORT: cannot listen on port {port}: {error.strerror}") from None
    # A reader that never closes its connection must not keep the process.
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="report", daemon=True).start()
    return server


def _handler(reporter: Reporter, stacks: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    def progress() -> str:
        # Read on each request: a bound method would serve the first report forever.
        return progress_text(reporter.serve())

    pages: dict[str, tuple[str, Callable[[], str]]] = {
        PROGRESS_PATH: ("application/json", progress),
        HEALTH_PATH: ("text/plain; charset=utf-8", lambda: "ok\n"),
        STACKS_PATH: ("text/plain; charset=utf-8", stacks),
        METRICS_PATH: ("text/plain; version=0.0.4; charset=utf-8", lambda: prometheus_text(reporter.current)),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path.split("?", 1)[0])
            if page is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            body = page[1]().encode()
            # TensorFlow may hold the GIL for longer than the client waits; a closed connection is not an error
            with contextlib.suppress(ConnectionError):
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", page[0])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name in http.server
            """Log nothing: the controller polls every few seconds, and the log is for training."""

    return Handler


def progress_text(report: ProgressReport) -> str:
    """Return the JSON of a report, limited to the size that the controller reads by dropping the oldest failures."""
    text = report.to_json()
    # Only the failures can be long; the oldest go first.
    while len(text) > MAX_REPORT_BYTES and report.gang is not None and report.gang.failures:
        failures = report.gang.failures
        gang = report.gang.model_copy(update={"failures": failures[(len(failures) + 1) // 2 :]})
        report = report.model_copy(update={"gang": gang})
        text = report.to_json()
    return text


def stacks_text() -> str:
    """Return the Python stack of every thread, the main thread first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    frames = sorted(sys._current_frames().items(), key=lambda item: item[0] != main)  # noqa: SLF001  no public way
    parts = [
        f"Thread {names.get(ident, 'unknown')} ({ident}):\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in frames
    ]
    return "\n".join(parts)


def prometheus_text(report: ProgressReport) -> str:
    """Return `report` in Prometheus' text format, version 0.0.4; absent values have no line."""
    labels = f'role="{report.role}",index="{report.index}",attempt="{report.attempt}"'
    lines: list[str] = []
    for field, meaning in _GAUGES.items():
        value = getattr(report, field)
        if value is not None:
            name = f"tfdist_trainer_{field}"
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge", f"{name}{{{labels}}} {value}"]
    for name, values in (("metric", report.metrics), ("evaluation", _evaluation(report))):
        lines += [f'tfdist_trainer_{name}{{{labels},name="{key}"}} {value}' for key, value in values.items()]
    return "\n".join([*lines, f'tfdist_trainer_phase{{{labels},phase="{report.phase}"}} 1', ""])


def _evaluation(report: ProgressReport) -> dict[str, float]:
    return report.evaluation.metrics if report.evaluation else {}
