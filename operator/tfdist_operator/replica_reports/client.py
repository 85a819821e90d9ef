"""The client of the replicas' report ports: progress reports, and stacks of threads.

The controller pulls, so pods need no credentials and no route to the controller. Pods are untrusted: a response is
accepted only whole, within a size limit and a deadline, from the address of the pod (no redirects), and without
decompression. The client raises no errors: a request that fails returns an `Unreported`.
"""

import asyncio
import logging
from types import TracebackType
from typing import Final, Self

import aiohttp
from pydantic import ValidationError

from tfdist import contract
from tfdist.contract_reports import MAX_REPORT_BYTES, ProgressReport
from tfdist.observed.probe import Unreported

log = logging.getLogger(__name__)

DEADLINE_SECONDS: Final = 2.0
"""Time limit of a whole request, from the connection to the last byte of the response."""
LARGEST_STACKS_BYTES: Final = 256 * 1024
_KEPT_SECONDS: Final = 90.0
"""Longer than the interval between two polls of one replica, so that its connection is reused."""
_CHUNK_BYTES: Final = 16 * 1024
_HTTP_OK: Final = 200


class _UnreadableError(Exception):
    """The response of a pod is not a report."""


class ReportClient:
    """A client of the report ports of all replicas."""

    def __init__(self) -> None:
        # Pollers and diagnoses limit their own requests in flight, so neither waits for the other here.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_SECONDS)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=DEADLINE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": "identity"},
            auto_decompress=False,
            read_bufsize=2 * _CHUNK_BYTES,
            max_headers=32,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def progress(self, ip: str) -> ProgressReport | Unreported:
        """Return the progress report of the replica at the address `ip`."""
        content = await self._get(ip, contract.PROGRESS_PATH, MAX_REPORT_BYTES)
        if isinstance(content, Unreported):
            return content
        try:
            return ProgressReport.model_validate_json(content)
        except ValidationError as error:
            log.debug("malformed progress report", extra={"ip": ip, "error": str(error)[:500]})
            return Unreported.UNREADABLE

    async def stacks(self, ip: str) -> str | Unreported:
        """Return the stacks of the threads of the replica at the address `ip`."""
        content = await self._get(ip, contract.STACKS_PATH, LARGEST_STACKS_BYTES)
        return content if isinstance(content, Unreported) else content.decode("utf-8", "replace")

    async def _get(self, ip: str, path: str, limit: int) -> bytes | Unreported:
        host = f"[{ip}]" if ":" in ip else ip
        url = f"http://{host}:{contract.REPORT_PORT}{path}"
        answered = False
        try:
            async with (
                asyncio.timeout(DEADLINE_SECONDS),
                self._session.get(url, allow_redirects=False) as response,
            ):
                answered = True
                return await _body(response, limit)
        except _UnreadableError as error:
            reason = str(error)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            answered = answered or isinstance(error, aiohttp.ClientResponseError)
            reason = f"{type(error).__name__}: {error}"
        log.debug("no report", extra={"ip": ip, "path": path, "answered": answered, "reason": reason[:500]})
        return Unreported.UNREADABLE if answered else Unreported.NO_ANSWER


async def _body(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Return the whole body.

    Raises:
        _UnreadableError: the status is not 200, or the body has more than `limit` bytes.
    """
    if response.status != _HTTP_OK:
        raise _UnreadableError(f"status {response.status}")
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > limit:
            raise _UnreadableError(f"more than {limit} bytes")
    return bytes(body)
