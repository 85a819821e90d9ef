"""Asks replicas where they stand: their progress report and, of a stalled gang, the stacks of their threads.

The controller pulls: pods need no credentials and no way to the controller. A replica that does not answer costs
its own job a missing update and nobody else anything.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

import aiohttp
from pydantic import ValidationError

from tfdist import contract
from tfdist.contract_reports import ProgressReport
from tfdist_operator.observed.view import Evidence
from tfdist_operator.planner.plan import Question

log = logging.getLogger(__name__)

_TIMEOUT_SECONDS: Final = 2.0
_IN_FLIGHT: Final = 64
_KEPT_SECONDS: Final = 90.0
"""Longer than the time between two questions to one replica, so that its connection serves for both."""
_LARGEST_REPORT: Final = 64 * 1024
_LARGEST_STACKS: Final = 256 * 1024
_KEPT_STACKS: Final = 4096
"""Characters of all replicas' stacks that a failure record keeps: the status is read by people."""


class Reports:
    """The report ports of replicas, asked through one session."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(_IN_FLIGHT)
        kept = aiohttp.TCPConnector(limit=_IN_FLIGHT, keepalive_timeout=_KEPT_SECONDS)
        self._session = aiohttp.ClientSession(connector=kept, timeout=aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS))

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def progress(self, ip: str) -> ProgressReport | None:
        """Return the report of the replica at `ip`; None where it gives none."""
        content = await self._get(ip, contract.PROGRESS_PATH, _LARGEST_REPORT)
        if content is None:
            return None
        try:
            return ProgressReport.model_validate_json(content)
        except ValidationError as error:
            log.debug("malformed progress report", extra={"ip": ip, "error": str(error)})
            return None

    async def evidence(self, about: str, questions: Sequence[Question]) -> Evidence:
        """Ask every replica of a stalled attempt where it stands, and return who is behind; `about` names the stall.

        That is one that does not answer, else the one with the fewest steps; of several the first.
        """
        reports, stacks = await asyncio.gather(
            asyncio.gather(*(self.progress(q.ip) for q in questions)),
            asyncio.gather(*(self._get(q.ip, contract.STACKS_PATH, _LARGEST_STACKS) for q in questions)),
        )
        names = [f"{q.role}-{q.index}" for q in questions]
        steps = [-1 if r is None else (r.step or 0) for r in reports]
        behind = min(zip(steps, names, strict=True), default=(0, ""), key=lambda item: item[0])[1]
        share = max(_KEPT_STACKS // max(1, len(names)), 256)
        told = [f"{n}: {_ending(s, share)}" for n, s in zip(names, stacks, strict=True)]
        silent = tuple(name for name, report in zip(names, reports, strict=True) if report is None)
        return Evidence(about, behind, "\n".join(told)[:_KEPT_STACKS], silent)

    async def _get(self, ip: str, path: str, largest: int) -> bytes | None:
        host = f"[{ip}]" if ":" in ip else ip
        try:
            async with self._slots, self._session.get(f"http://{host}:{contract.REPORT_PORT}{path}") as response:
                response.raise_for_status()
                return await response.content.read(largest)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.debug("no answer", extra={"ip": ip, "path": path, "error": str(error)})
            return None


def _ending(stacks: bytes | None, share: int) -> str:
    """Return the last part of the stacks, which is where the main thread stands."""
    if stacks is None:
        return "does not answer"
    text = stacks.decode("utf-8", "replace").strip()
    return text[-share:]
