"""Receives and parses the responses of replicas in a thread with a separate event loop.

The main event loop reconciles all jobs. What pods send is received, parsed and validated elsewhere, so that no stream
of a pod, and no number of pods, can keep the main loop busy.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final, TypeVar

from tfdist.observed.probe import Unreported
from tfdist.report_response import SEGMENT_BYTES, ReportResponse, report_request
from tfdist_operator.kube.loop_thread import LoopThread

log = logging.getLogger(__name__)

_PAUSE_SECONDS: Final = 0.005
"""Pause between two segments of a response: a pod that sends single bytes costs 400 segments within its 2 s."""

T = TypeVar("T")


class ReportReader:
    """Reads responses of replicas in its thread, from its creation until `close`."""

    def __init__(self) -> None:
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
            await asyncio.sleep(_PAUSE_SECONDS)
