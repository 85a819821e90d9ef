"""Asks the coordinator of every running job how far it is.

The controller pulls: pods need no credentials and no way to the controller. A coordinator that does not answer
costs its own job a missing update and nobody else anything.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

import aiohttp
from pydantic import ValidationError

from tfdist import contract
from tfdist.api.status import ConditionType
from tfdist.contract import ProgressReport
from tfdist.render.gang import training_gang
from tfdist_operator.kube.job_store import JobStore, StoredJob
from tfdist_operator.kube.memory import Memory
from tfdist_operator.kube.pod_store import Key, PodStore
from tfdist_operator.metrics import PROGRESS_RATIO
from tfdist_operator.observed.gang import gang_state
from tfdist_operator.observed.pod import PodState
from tfdist_operator.observed.view import Report
from tfdist_operator.status.clock import rfc3339
from tfdist_operator.status.conditions import is_true

log = logging.getLogger(__name__)

_TIMEOUT_SECONDS: Final = 2.0
_IN_FLIGHT: Final = 64
_LARGEST_REPORT: Final = 64 * 1024


class ProgressPoller:
    """Remembers the reports, and calls `on_report` with the key of a job whose report has changed."""

    def __init__(
        self,
        jobs: JobStore,
        pods: PodStore,
        memory: Memory,
        on_report: Callable[[Key], None],
        now: Callable[[], datetime],
    ) -> None:
        self._jobs = jobs
        self._pods = pods
        self._memory = memory
        self._on_report = on_report
        self._now = now
        self._slots = asyncio.Semaphore(_IN_FLIGHT)

    async def run(self, interval_seconds: float) -> None:
        """Ask until cancelled."""
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                asked = [self._ask(session, job, ip) for job, ip in self._coordinators()]
                await asyncio.gather(*asked)
                await asyncio.sleep(interval_seconds)

    def _coordinators(self) -> Iterator[tuple[StoredJob, str]]:
        """Yield each running job and the address of the replica that leads it."""
        for stored in self._jobs.all():
            if stored.job is None or not is_true(stored.status, ConditionType.RUNNING):
                continue
            pods = self._pods.of(stored.key, stored.uid)
            state = gang_state(training_gang(stored.job), stored.status.get("attempt", 0), pods)
            leader = state.leader
            if leader is not None and leader.state is PodState.RUNNING and leader.ip:
                yield stored, leader.ip

    async def _ask(self, session: aiohttp.ClientSession, job: StoredJob, ip: str) -> None:
        host = f"[{ip}]" if ":" in ip else ip
        address = f"http://{host}:{contract.REPORT_PORT}{contract.PROGRESS_PATH}"
        try:
            async with self._slots, session.get(address) as response:
                response.raise_for_status()
                content = ProgressReport.model_validate_json(await response.content.read(_LARGEST_REPORT))
        except (aiohttp.ClientError, TimeoutError, ValidationError) as error:
            log.debug("no progress report", extra={"job": "/".join(job.key), "error": str(error)})
            return
        if self._jobs.get(job.key) is None:
            return
        memory = self._memory.of(job.key, job.uid)
        if memory.report is not None and memory.report.content == content:
            return
        memory.report = Report(content, rfc3339(self._now()))
        if content.step is not None and content.total_steps:
            PROGRESS_RATIO.labels(*job.key).set(content.step / content.total_steps)
        self._on_report(job.key)
