"""The diagnosis of a stalled attempt: progress and stacks of every replica, while reconciling of the job continues.

The replicas of a job are probed separately from polling and from other jobs, with a limit on the requests in flight and
a deadline: pods that do not answer delay only the diagnosis of their own job.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from tfdist.contract import replica_name
from tfdist.observed.job_view import ProbeResult
from tfdist.observed.probe import SHOWN_STACKS, Answer, Unreported, probe_result
from tfdist.planner.plan import ProbeTarget
from tfdist.restarts.stall import position_of
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.replica_reports.report_client import ReportClient

log = logging.getLogger(__name__)

DEADLINE_SECONDS: Final = 10.0
"""Time limit for all replicas of one job."""
REQUESTS_PER_JOB: Final = 32
"""Maximum number of requests in flight for one job."""
DIAGNOSES_IN_PARALLEL: Final = 8
"""With the limits of a response it bounds the memory of all diagnoses to 64 MiB; further diagnoses wait."""


class Diagnosis:
    """The diagnoses in progress, at most one for each job."""

    def __init__(self, client: ReportClient) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(DIAGNOSES_IN_PARALLEL)
        self._tasks: dict[NamespacedName, tuple[str, asyncio.Task[None]]] = {}

    def start(
        self,
        key: NamespacedName,
        about: str,
        questions: Sequence[ProbeTarget],
        on_result: Callable[[ProbeResult], None],
    ) -> None:
        """Probe the replicas of a job and pass the result to `on_result`, unless the same diagnosis is in progress."""
        known = self._tasks.get(key)
        # The plan asks for the diagnosis at each reconcile, until it has the result.
        if known is not None and known[0] == about:
            return
        if known is not None:
            known[1].cancel()
        task = asyncio.create_task(self._diagnose(key, about, tuple(questions), on_result))
        self._tasks[key] = about, task
        task.add_done_callback(lambda ended: self._on_end(key, ended))

    async def close(self) -> None:
        """Cancel all diagnoses, and close the connections of the client."""
        tasks = [task for _, task in self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    def _on_end(self, key: NamespacedName, task: asyncio.Task[None]) -> None:
        current = self._tasks.get(key)
        if current is not None and current[1] is task:
            del self._tasks[key]

    async def _diagnose(
        self,
        key: NamespacedName,
        about: str,
        questions: Sequence[ProbeTarget],
        on_result: Callable[[ProbeResult], None],
    ) -> None:
        try:
            # Pods send up to 256 KiB each: the limit bounds the memory of all diagnoses to 64 MiB (ADR 18).
            async with self._slots:
                evidence = await self.find_suspect(about, questions)
        except Exception:
            log.exception("a diagnosis failed by a bug of the controller", extra={"job": "/".join(key)})
            evidence = ProbeResult(about, "", "")
        on_result(evidence)

    async def find_suspect(self, about: str, questions: Sequence[ProbeTarget]) -> ProbeResult:
        """Return the suspect of the stall: the first replica that does not answer, else one that is behind the others.

        Replicas with unreadable responses, and replicas without a result at the deadline, are not considered.
        """
        slots = asyncio.Semaphore(REQUESTS_PER_JOB)
        tasks = [asyncio.create_task(self._ask(slots, q.ip, stacks=n < SHOWN_STACKS)) for n, q in enumerate(questions)]
        try:
            if tasks:
                # Pods that do not answer delay only the diagnosis of their own job.
                await asyncio.wait(tasks, timeout=DEADLINE_SECONDS)
            names = (replica_name(q.role, q.index) for q in questions)
            finished = {n: t for n, t in zip(names, tasks, strict=True) if t.done() and not t.exception()}
        finally:
            for task in tasks:
                task.cancel()
        return probe_result(about, {name: task.result() for name, task in finished.items()}, len(questions))

    async def _ask(self, slots: asyncio.Semaphore, ip: str, *, stacks: bool) -> Answer:
        async with slots:
            report = await self._client.progress(ip)
            # Its stacks would not come either, and would cost another timeout.
            if isinstance(report, Unreported) and report is not Unreported.UNREADABLE:
                return report, report
            text = await self._client.stacks(ip) if stacks else None
        return report if isinstance(report, Unreported) else position_of(report), text
