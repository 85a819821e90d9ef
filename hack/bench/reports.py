"""Answers for all fake pods what a trainer answers: a progress report whose step grows.

A process of its own, so that it does not slow the one that measures; run as `python -m bench.reports ADDRESS`.
"""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.cluster import machine_address, wait
from tfdist import contract
from tfdist.contract import Phase, Role
from tfdist.contract_reports import ProgressReport
from tfdist_cluster import shell
from tfdist_cluster.errors import ClusterError


class _Answers(asyncio.Protocol):
    """As much HTTP as the controller needs: one request without a body, after which the connection is closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where answers go."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:  # noqa: ARG002  the signature of asyncio
        """Answer the request."""
        assert isinstance(self._transport, asyncio.Transport)  # noqa: S101  asyncio types it more widely
        self._transport.write(_answer())
        self._transport.close()


def _answer() -> bytes:
    step = int(time.time()) % 1_000_000
    report = ProgressReport(
        role=Role.WORKER, index=0, attempt=0, phase=Phase.TRAINING, step=step, total_steps=1_000_000,
        examples=step * 64, examples_per_second=64.0, step_time_millis=1000.0, metrics={"loss": 0.5},
    ).to_json()  # fmt: skip
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(report)}\r\n\r\n"
    return (head + report).encode()


async def _serve(address: str) -> None:
    server = await asyncio.get_running_loop().create_server(_Answers, address, contract.REPORT_PORT)
    await server.serve_forever()


@contextlib.contextmanager
def served() -> Iterator[None]:
    """Answer for every fake pod while the block runs."""
    command = shell.bound([sys.executable, "-m", "bench.reports", machine_address()])
    child = subprocess.Popen([str(word) for word in command])
    try:
        wait(lambda: child.poll() is not None or _accepts(), "the progress reports of fake pods")
        if child.poll() is not None:
            raise ClusterError(f"no progress reports: is port {contract.REPORT_PORT} in use?")
        yield
    finally:
        child.terminate()
        child.wait()


def _accepts() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((machine_address(), contract.REPORT_PORT)) == 0


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
