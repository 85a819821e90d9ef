"""Follows every running job: asks its coordinator again and again how far it is, and its evaluator what it found."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import partial
from typing import Final

from tfdist.api.status import ConditionType
from tfdist.contract_reports import ProgressReport
from tfdist.render.gang import Gang, evaluator_gang, training_gang
from tfdist_operator.kube.job_store import JobStore, StoredJob
from tfdist_operator.kube.memory import JobMemory, Memory
from tfdist_operator.kube.pod_store import Key, PodStore
from tfdist_operator.metrics import EXAMPLES_PER_SECOND, PER_JOB, PROGRESS_RATIO, STEP_TIME_SECONDS
from tfdist_operator.observed.gang import gang_state
from tfdist_operator.observed.pod import PodState
from tfdist_operator.observed.record import stored_record
from tfdist_operator.observed.view import Pace, Report
from tfdist_operator.reports import Reports
from tfdist_operator.rhythm import Rhythm
from tfdist_operator.status.clock import parse_time, rfc3339
from tfdist_operator.status.conditions import is_true
from tfdist_operator.status.phase import is_terminal

EVALUATOR_EVERY: Final = 3
"""An evaluator is asked in every third round: it has news with each checkpoint, not with each step."""

_SLICE_SECONDS: Final = 0.25


class ProgressPoller:
    """Remembers the reports, and calls `on_report` with the key of a job whose report has changed.

    Beside the key it gets the seconds until the status may be written again.
    """

    def __init__(
        self,
        jobs: JobStore,
        pods: PodStore,
        memory: Memory,
        reports: Reports,
        on_report: Callable[[Key, float], None],
        now: Callable[[], datetime],
        rhythm: Rhythm,
    ) -> None:
        self._jobs = jobs
        self._pods = pods
        self._memory = memory
        self._reports = reports
        self._on_report = on_report
        self._now = now
        self._rhythm = rhythm
        self._measured: set[Key] = set()

    async def run(self) -> None:
        """Ask until cancelled."""
        for number in itertools.count():
            running = {job.key for job, _ in self._coordinators()}
            self._rhythm.jobs = len(running)
            self._measure_no_more(self._measured - running)
            await self.ask(evaluators=number % EVALUATOR_EVERY == 0, seconds=self._rhythm.ask_every())

    async def ask(self, *, evaluators: bool, seconds: float = 0.0) -> None:
        """Ask each coordinator once, and each evaluator, evenly spread over so many seconds.

        Nobody waits for one that does not answer.
        """
        questions = [partial(self._ask, job, ip) for job, ip in self._coordinators()]
        if evaluators:
            questions += [partial(self._ask_evaluator, job, ip) for job, ip in self._evaluators()]
        slices = max(1, round(seconds / _SLICE_SECONDS))
        async with asyncio.TaskGroup() as asked:
            for number in range(slices):
                for question in questions[number::slices]:
                    asked.create_task(question())
                await asyncio.sleep(seconds / slices)

    def _coordinators(self) -> Iterator[tuple[StoredJob, str]]:
        """Yield each running job and the address of the replica that leads it."""
        for stored in self._jobs.all():
            if stored.job is None or not is_true(stored.status, ConditionType.RUNNING):
                continue
            ip = self._leader_of(stored, training_gang(stored.job))
            if ip:
                yield stored, ip

    def _evaluators(self) -> Iterator[tuple[StoredJob, str]]:
        """Yield each job with an evaluator that runs, and its address."""
        for stored in self._jobs.all():
            gang = evaluator_gang(stored.job) if stored.job and not is_terminal(stored.status) else None
            ip = self._leader_of(stored, gang) if gang else ""
            if ip:
                yield stored, ip

    def _leader_of(self, stored: StoredJob, gang: Gang) -> str:
        """Return the address of the replica that leads a gang; "" where it does not run."""
        record = stored_record(stored.status, gang.name)
        if record is None:
            return ""
        leader = gang_state(gang, record, self._pods.of(stored.key, stored.uid)).leader
        return leader.ip if leader is not None and leader.state is PodState.RUNNING else ""

    async def _ask(self, job: StoredJob, ip: str) -> None:
        content = await self._reports.progress(ip)
        if content is None or self._jobs.get(job.key) is None:
            return
        self._measured.add(job.key)
        _measure(job.key, content)
        memory = self._memory.of(job.key, job.uid)
        if memory.report is not None and memory.report.content == content:
            return
        now = rfc3339(self._now())
        urgent = _is_news(memory, content)
        memory.pace = _pace(memory, content, now)
        memory.report = Report(content, now)
        self._on_report(job.key, 0.0 if urgent else self._seconds_until_a_write(memory))

    async def _ask_evaluator(self, job: StoredJob, ip: str) -> None:
        content = await self._reports.progress(ip)
        if content is None or content.evaluation is None or self._jobs.get(job.key) is None:
            return
        memory = self._memory.of(job.key, job.uid)
        if memory.evaluated is not None and _results(memory.evaluated) == _results(content):
            return
        memory.evaluated = content
        self._on_report(job.key, self._seconds_until_a_write(memory))

    def _measure_no_more(self, keys: AbstractSet[Key]) -> None:
        """Drop the series of jobs that do not run any more: one that has ended would seem to stand still."""
        for key in keys:
            for metric in PER_JOB:
                with contextlib.suppress(KeyError):
                    metric.remove(*key)
        self._measured -= keys

    def _seconds_until_a_write(self, memory: JobMemory) -> float:
        """Return when a report may be written: before that a look at the job would come to nothing."""
        if memory.status_written_at is None:
            return 0.0
        return max(0.0, memory.status_written_at + self._rhythm.write_every() - time.monotonic())


def _is_news(memory: JobMemory, content: ProgressReport) -> bool:
    """Return whether launchers tell of a failure, or of what they wait for: more than moved counters."""
    last = memory.report.content.gang if memory.report else None
    gang = content.gang
    if gang is None:
        return False
    return last is None or (last.failures, last.waiting_for) != (gang.failures, gang.waiting_for)


def _pace(memory: JobMemory, content: ProgressReport, now: str) -> Pace:
    """Return the pace with what a new report shows: a move is a new step, checkpoint or phase."""
    old, last = memory.pace, memory.report.content if memory.report else None
    if old is None or last is None or old.attempt != content.attempt:
        return Pace(content.attempt, now)
    if _place(last) == _place(content):
        return old
    gap = (parse_time(now) - parse_time(old.moved_at)).total_seconds()
    return Pace(content.attempt, now, max(old.longest_gap_seconds, gap), old.moves + 1)


def _results(content: ProgressReport) -> tuple[object, ...]:
    return (content.evaluation, content.best_evaluation, content.final_evaluation)


def _place(content: ProgressReport) -> tuple[object, ...]:
    saved = content.last_checkpoint.step if content.last_checkpoint else None
    return (content.round, content.phase, content.step, saved)


def _measure(key: Key, content: ProgressReport) -> None:
    if content.step is not None and content.total_steps:
        PROGRESS_RATIO.labels(*key).set(min(1.0, content.step / content.total_steps))
    if content.examples_per_second is not None:
        EXAMPLES_PER_SECOND.labels(*key).set(content.examples_per_second)
    if content.step_time_millis is not None:
        STEP_TIME_SECONDS.labels(*key).set(content.step_time_millis / 1000)
