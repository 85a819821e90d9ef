"""The client of the replicas' report ports: progress reports, and stacks of threads.

The controller pulls, so pods need no credentials and no route to the controller. Pods are untrusted: a response is
accepted only whole, within a size limit and a deadline, from the address of the pod (no redirects), and without
decompression. The client raises no errors: a request that fails returns an `Unreported`.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TypeVar

from tfdist import contract
from tfdist.contract_reports import MAX_REPORT_BYTES, ProgressReport
from tfdist.observed.probe import Unreported
from tfdist.report_response import SEGMENT_BYTES, ReportResponse, report_request
from tfdist_operator.loop_thread import LoopThread

DEADLINE_SECONDS: Final = 2.0
"""Time limit of a whole request, from the connection to the last byte of the response."""
LARGEST_STACKS_BYTES: Final = 256 * 1024
log = logging.getLogger(__name__)
_PAUSE_SECONDS: Final = 0.005
"""Pause between two segments of a response: a pod that sends single bytes costs 400 segments within its 2 s."""
T = TypeVar("T")


class ReportClient:
    """A client of the report ports of all replicas. It does not limit the requests in flight: its callers do."""

    def __init__(self) -> None:
        self._reader = ReportReader()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancel all requests."""
        await self._reader.close()

    async def progress(self, ip: str) -> ProgressReport | Unreported:
        """Return the progress report of the replica at the address `ip`."""
        address = (ip, contract.REPORT_PORT)
        parse = ProgressReport.model_validate_json
        return await self._reader.read(address, contract.PROGRESS_PATH, MAX_REPORT_BYTES, DEADLINE_SECONDS, parse)

    async def stacks(self, ip: str) -> str | Unreported:
        """Return the stacks of the threads of the replica at the address `ip`."""
        address = (ip, contract.REPORT_PORT)
        return await self._reader.read(address, contract.STACKS_PATH, LARGEST_STACKS_BYTES, DEADLINE_SECONDS, _text)


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")


class ReportReader:
    """Reads responses of replicas in its thread, from its creation until `close`."""

    def __init__(self) -> None:
        # The main loop reconciles all jobs: what pods send is received and parsed in another thread, so that no stream
        # of a pod can keep the main loop busy (ADR 18).
        self._thread = LoopThread("replica reports")

    async def read(
        self, address: tuple[str, int], path: str, limit: int, seconds: float, parse: Callable[[bytes], T]
    ) -> T | Unreported:
        """Return the parsed body at `path`; called in another event loop, which is not blocked.

        Args:
            address: IP address and port of the replica.
            path: path of the request.
            limit: largest body in bytes.
            seconds: time limit, from the connection to the last byte.
            parse: called in the thread; raises ValueError for a body that is rejected.
        """
        return await self._thread.run(_read(address, path, limit, seconds, parse))

    async def close(self) -> None:
        """Cancel all reads and end the thread."""
        await self._thread.close()


async def _read(
    address: tuple[str, int], path: str, limit: int, seconds: float, parse: Callable[[bytes], T]
) -> T | Unreported:
    response = ReportResponse(limit)
    try:
        async with asyncio.timeout(seconds):
            return parse(await _receive(address, path, response))
    # The pod answers, and none of its processes serves reports.
    except ConnectionRefusedError:
        return Unreported.NO_SERVER
    except (OSError, TimeoutError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"[:500]
    log.debug("no report", extra={"ip": address[0], "path": path, "answered": response.began, "reason": reason})
    return Unreported.UNREADABLE if response.began else Unreported.NO_ANSWER


async def _receive(address: tuple[str, int], path: str, response: ReportResponse) -> bytes:
    """Return the body of the response to a request.

    Raises:
        OSError: the replica cannot be reached, or has closed the connection.
        ResponseError: it does not answer with a report.
    """
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET) as connection:
        connection.setblocking(False)
        await loop.sock_connect(connection, address)
        await loop.sock_sendall(connection, report_request(*address, path))
        while True:
            response.feed(await loop.sock_recv(connection, SEGMENT_BYTES))
            if response.body is not None:
                return response.body
            # A pod that sends single bytes costs 400 segments at most (ADR 18).
            await asyncio.sleep(_PAUSE_SECONDS)
