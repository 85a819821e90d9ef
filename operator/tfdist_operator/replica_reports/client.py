"""The client of the replicas' report ports: progress reports, and stacks of threads.

The controller pulls, so pods need no credentials and no route to the controller. Pods are untrusted: a response is
accepted only whole, within a size limit and a deadline, from the address of the pod (no redirects), and without
decompression. The client raises no errors: a request that fails returns an `Unreported`.
"""

from types import TracebackType
from typing import Final, Self

from tfdist import contract
from tfdist.contract_reports import MAX_REPORT_BYTES, ProgressReport
from tfdist.observed.probe import Unreported
from tfdist_operator.replica_reports.reader import ReportReader

DEADLINE_SECONDS: Final = 2.0
"""Time limit of a whole request, from the connection to the last byte of the response."""
LARGEST_STACKS_BYTES: Final = 256 * 1024


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
