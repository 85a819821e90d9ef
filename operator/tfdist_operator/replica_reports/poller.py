"""Polls every running job: its leader for progress, and its evaluator for evaluation results.

Each poll is a separate task: a slow poll, or an error of the controller in one, affects only its own job.
"""

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Final

from tfdist.contract_reports import ProgressReport
from tfdist.observed.cadence import with_report
from tfdist.observed.job_view import TimestampedReport
from tfdist.observed.pod import PodState
from tfdist.observed.probe import Unreported
from tfdist.timestamps import rfc3339
from tfdist_operator.cache.job_cache import CachedJob, JobCache
from tfdist_operator.cache.pod_cache import PodCache
from tfdist_operator.cache.runtime_state import JobRuntimeState, RuntimeStateStore
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.metrics import EXAMPLES_PER_SECOND, PER_JOB, PROGRESS_RATIO, STEP_TIME_SECONDS
from tfdist_operator.replica_reports.report_client import ReportClient

POLLED_PER_SECOND: Final = 40.0
"""Maximum number of reports read per second."""
WRITTEN_PER_SECOND: Final = 20.0
"""Maximum number of statuses with only changed counters written per second."""
log = logging.getLogger(__name__)
EVALUATOR_EVERY: Final = 3
"""Evaluators are polled in every third round: their results change with each checkpoint, not with each step."""
SILENT_SECONDS: Final = 15.0
"""A leader that has answered before counts as stalled or unreachable after this time without an answer."""
_SLICE_SECONDS: Final = 0.25
_Poll = Callable[[CachedJob, str], Awaitable[None]]
_Replica = tuple[CachedJob, str]
"""A replica to poll: its job and its address."""
_leader, _evaluator = attrgetter("leader"), attrgetter("evaluator")
"""Return the name of the pod to poll, given the runtime state of its job."""


@dataclass(slots=True)
class PollRate:
    """The minimum intervals of one job, `poll_seconds` and `write_seconds`, and `jobs`, the number of running jobs."""

    poll_seconds: float
    write_seconds: float
    jobs: int = 0

    def poll_interval_seconds(self) -> float:
        """Return the seconds between two polls of one job."""
        return max(self.poll_seconds, self.jobs / POLLED_PER_SECOND)

    def status_interval_seconds(self) -> float:
        """Return the minimum seconds between two writes of one job's counters."""
        return max(self.write_seconds, self.jobs / WRITTEN_PER_SECOND)

    def throttled_seconds(self, written_at: float, now: float) -> float:
        """Return the seconds until counters may be written, after a write at `written_at`; both times are monotonic."""
        return max(0.0, written_at + self.status_interval_seconds() - now)


class ReportPoller:
    """Stores the reports, and calls `on_report` with the key of a job whose report has changed.

    The second argument of `on_report` is the delay in seconds until the status may be written again.
    """

    def __init__(
        self,
        jobs: JobCache,
        pods: PodCache,
        states: RuntimeStateStore,
        client: ReportClient,
        on_report: Callable[[NamespacedName, float], None],
        now: Callable[[], datetime],
        rate: PollRate,
    ) -> None:
        self._jobs = jobs
        self._pods = pods
        self._states = states
        self._client = client
        self._on_report = on_report
        self._now = now
        self._rate = rate
        self._measured: set[NamespacedName] = set()
        self._in_flight: dict[tuple[NamespacedName, bool], asyncio.Task[None]] = {}
        """Polls in flight by job and whether the evaluator is polled."""

    async def run(self) -> None:
        """Poll until cancelled."""
        try:
            for number in itertools.count():
                await self.start_round(evaluators=number % EVALUATOR_EVERY == 0)
        finally:
            for task in self._in_flight.values():
                task.cancel()

    async def start_round(self, *, evaluators: bool) -> None:
        """Start a poll of each leader, and with `evaluators` of each evaluator, evenly spread over the poll interval.

        Replicas with a poll in flight are skipped.
        """
        leaders = self._running_replicas(_leader)
        # With many running jobs the intervals grow: 40 reports and 20 writes a second at most.
        self._rate.jobs = len(leaders)
        self._remove_metrics(self._measured - {job.key for job, _ in leaders})
        polls = [(job, ip, False) for job, ip in leaders]
        if evaluators:
            polls += [(job, ip, True) for job, ip in self._running_replicas(_evaluator)]
        seconds = self._rate.poll_interval_seconds()
        slices = max(1, round(seconds / _SLICE_SECONDS))
        for number in range(slices):
            # Evenly spread: bursts would delay more important requests.
            for job, ip, is_evaluator in polls[number::slices]:
                self._begin(job, ip, is_evaluator=is_evaluator)
            await asyncio.sleep(seconds / slices)

    def _begin(self, job: CachedJob, ip: str, *, is_evaluator: bool) -> None:
        """Start a poll. The client's deadline limits its time, and so the number in flight: rate times deadline."""
        name = (job.key, is_evaluator)
        # One poll at a time for each job: a pod that answers slowly delays only its own (ADR 18).
        if name not in self._in_flight:
            poll = self._poll_evaluator if is_evaluator else self._poll
            task = self._in_flight[name] = asyncio.create_task(_poll_safely(poll, job, ip))
            task.add_done_callback(lambda _: self._in_flight.pop(name, None))

    def _running_replicas(self, pod_name: Callable[[JobRuntimeState], str]) -> list[_Replica]:
        """Return each job whose pod of this name runs, with the address of the pod."""
        replicas = []
        for job in self._jobs.all():
            pod = self._pods.find(job.key, job.uid, pod_name(self._states.get(job.key, job.uid)))
            if pod is not None and pod.state is PodState.RUNNING and pod.ip:
                replicas.append((job, pod.ip))
        return replicas

    async def _poll(self, job: CachedJob, ip: str) -> None:
        content = await self._report(job, ip, leads=True)
        if content is None:
            return
        self._measured.add(job.key)
        _set_metrics(job.key, content)
        state = self._states.get(job.key, job.uid)
        if state.report is not None and state.report.content == content:
            return
        now = rfc3339(self._now())
        urgent = _is_urgent(state, content)
        state.cadence = with_report(state.cadence, lambda: job.status, content, now)
        state.report = TimestampedReport(content, now)
        self._on_report(
            job.key, 0.0 if urgent else self._rate.throttled_seconds(state.status_written_at, time.monotonic())
        )

    async def _poll_evaluator(self, job: CachedJob, ip: str) -> None:
        content = await self._report(job, ip)
        if content is None or content.evaluation is None:
            return
        state = self._states.get(job.key, job.uid)
        if state.evaluated is not None and _results(state.evaluated) == _results(content):
            return
        state.evaluated = content
        self._on_report(job.key, self._rate.throttled_seconds(state.status_written_at, time.monotonic()))

    async def _report(self, job: CachedJob, ip: str, *, leads: bool = False) -> ProgressReport | None:
        """Return the report of a replica; None if there is none, or if the job was deleted meanwhile."""
        content = await self._client.progress(ip)
        # The poll took time, in which the job may have been replaced by another one of its name.
        now = self._jobs.get(job.key)
        if now is None or now.uid != job.uid:
            return None
        state = self._states.get(job.key, job.uid)
        if leads:
            # An answer that cannot be read is not silence: only a replica that does not answer can be the cause of a
            # stall (ADR 18).
            answered = not isinstance(content, Unreported) or content is Unreported.UNREADABLE
            self._record_answer(job.key, state, answered=answered)
        unreadable = content is Unreported.UNREADABLE
        if unreadable and not state.last_answer_unreadable:
            log.warning("a replica answers with no report", extra={"job": "/".join(job.key), "ip": ip})
        state.last_answer_unreadable = unreadable
        return None if isinstance(content, Unreported) else content

    def _record_answer(self, key: NamespacedName, state: JobRuntimeState, *, answered: bool) -> None:
        """Record whether the leader has answered; enqueue the job when the leader becomes silent or answers again."""
        now = time.monotonic()
        if answered:
            state.answered_at = now
        # With many jobs a leader is polled less often: it must miss several polls before it counts as silent.
        patience = max(SILENT_SECONDS, 3 * self._rate.poll_interval_seconds())
        silent = state.answered_at is not None and now - state.answered_at > patience
        if silent != state.leader_unresponsive:
            state.leader_unresponsive = silent
            self._on_report(key, 0.0)

    def _remove_metrics(self, keys: AbstractSet[NamespacedName]) -> None:
        """Remove the series of jobs that no longer run."""
        # Series of jobs that no longer run would stay constant, which indicates a stall.
        for key in keys:
            for metric in PER_JOB:
                with contextlib.suppress(KeyError):
                    metric.remove(*key)
        self._measured -= keys


async def _poll_safely(poll: _Poll, job: CachedJob, ip: str) -> None:
    """Poll one job; an exception is logged and ends only this poll."""
    try:
        await poll(job, ip)
    except Exception:
        log.exception("a poll failed by a bug of the controller", extra={"job": "/".join(job.key), "ip": ip})


def _is_urgent(state: JobRuntimeState, content: ProgressReport) -> bool:
    """Return whether the failures or pending members in the launcher report differ, not only counters."""
    last = state.report.content.gang if state.report else None
    gang = content.gang
    if gang is None:
        return False
    return last is None or (last.failures, last.waiting_for) != (gang.failures, gang.waiting_for)


def _results(content: ProgressReport) -> tuple[object, ...]:
    return (content.evaluation, content.best_evaluation, content.final_evaluation)


def _set_metrics(key: NamespacedName, content: ProgressReport) -> None:
    if content.percent is not None:
        PROGRESS_RATIO.labels(*key).set(min(1.0, content.percent / 100))
    elif content.step is not None and content.total_steps:
        PROGRESS_RATIO.labels(*key).set(min(1.0, content.step / content.total_steps))
    if content.examples_per_second is not None:
        EXAMPLES_PER_SECOND.labels(*key).set(content.examples_per_second)
    if content.step_time_millis is not None:
        STEP_TIME_SECONDS.labels(*key).set(content.step_time_millis / 1000)
