"""Polling of running jobs: the interval for each replica, and a replica that does not answer delays no other."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY
from support.factories import NOW, failure_in_place, launcher_report, manifest
from support.polling import until
from support.raw import raw_pod
from support.report_jobs import jobs_and_pods, poll_once, running_leaders

from tfdist.contract import Phase, Role
from tfdist.contract_reports import GangReport, ProgressReport
from tfdist.observed.probe import Unreported
from tfdist_operator.cache.job_cache import JobCache
from tfdist_operator.cache.pod_cache import PodCache
from tfdist_operator.cache.runtime_state import RuntimeStateStore
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.metrics import PROGRESS_RATIO
from tfdist_operator.replica_reports.poller import POLLED_PER_SECOND, WRITTEN_PER_SECOND, PollRate, ReportPoller
from tfdist_operator.replica_reports.report_client import ReportClient

TRAINS = ProgressReport(role=Role.WORKER, index=0, attempt=0, phase=Phase.TRAINING, step=5)


class Replies:
    """The report ports: the replica at `10.0.0.9` never answers."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gang: GangReport | None = None
        self.percent: float | None = None

    async def progress(self, ip: str) -> ProgressReport:
        self.asked.append(ip)
        if ip == "10.0.0.9":
            await asyncio.Event().wait()
        place: dict[str, Any] = {"role": Role.WORKER, "index": 0, "attempt": 0, "phase": Phase.TRAINING}
        steps = {"step": len(self.asked), "total_steps": 2 * len(self.asked), "percent": self.percent}
        return ProgressReport(**place, **steps, gang=self.gang)


async def test_a_replica_that_does_not_answer_delays_no_other() -> None:
    jobs, pods = jobs_and_pods("10.0.0.9", "10.0.0.1")
    replies, reported = Replies(), asyncio.Event()

    def on_report(key: NamespacedName, _: float) -> None:
        if key.name == "job-1":
            reported.set()

    rate = PollRate(0.01, 10)
    poller = ReportPoller(
        jobs, pods, running_leaders(jobs), cast("ReportClient", replies), on_report, lambda: NOW, rate
    )
    running = asyncio.create_task(poller.run())
    await asyncio.wait_for(reported.wait(), 30)
    assert rate.jobs == 2
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_a_failure_in_place_is_reported_at_once_and_counters_at_the_next_write_of_the_status() -> None:
    jobs, pods = jobs_and_pods("10.0.0.1")
    delays: asyncio.Queue[float] = asyncio.Queue()
    replies, states = Replies(), running_leaders(jobs)
    (job,) = jobs.all()
    states.get(job.key, job.uid).status_written_at = time.monotonic()
    rate = PollRate(0.01, 1000)
    on_report = lambda _key, seconds: delays.put_nowait(seconds)  # noqa: E731  one line for one call
    poller = ReportPoller(jobs, pods, states, cast("ReportClient", replies), on_report, lambda: NOW, rate)
    running = asyncio.create_task(poller.run())
    assert await asyncio.wait_for(delays.get(), 30) > 100
    replies.gang = launcher_report(failure_in_place(1)).content.gang
    while await asyncio.wait_for(delays.get(), 30) > 0:
        pass
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_a_job_has_series_while_it_runs_and_none_when_it_does_not() -> None:
    PROGRESS_RATIO.clear()  # of other tests
    jobs, pods = jobs_and_pods("10.0.0.1")
    replies, (job,) = Replies(), jobs.all()
    states = running_leaders(jobs)
    poller = ReportPoller(
        jobs, pods, states, cast("ReportClient", replies), lambda *_: None, lambda: NOW, PollRate(0.01, 10)
    )
    running = asyncio.create_task(poller.run())
    await until(lambda: ratio(job.key) == 0.5)
    replies.percent = 64.0
    await until(lambda: ratio(job.key) == 0.64)
    states.get(job.key, job.uid).leader = ""
    await until(lambda: ratio(job.key) is None)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


def ratio(key: NamespacedName) -> float | None:
    """Return the progress of a job in a scrape."""
    return REGISTRY.get_sample_value("tfdist_job_progress_ratio", key._asdict())


@pytest.mark.parametrize("jobs", [0, 1, 20])
def test_a_few_jobs_are_polled_at_the_interval_of_the_installation(jobs: int) -> None:
    rate = PollRate(2, 10, jobs)
    assert (rate.poll_interval_seconds(), rate.status_interval_seconds()) == (2, 10)


@pytest.mark.parametrize("jobs", [1000, 20000])
def test_thousands_of_jobs_share_the_limit_of_requests(jobs: int) -> None:
    rate = PollRate(2, 10, jobs)
    assert jobs / rate.poll_interval_seconds() == pytest.approx(POLLED_PER_SECOND)
    assert jobs / rate.status_interval_seconds() == pytest.approx(WRITTEN_PER_SECOND)


class Scripted:
    """Report ports that give what a function returns for an address."""

    def __init__(self, answer: Callable[[str], Awaitable[ProgressReport | Unreported]]) -> None:
        self._answer = answer

    async def progress(self, ip: str) -> ProgressReport | Unreported:
        return await self._answer(ip)


def polls(
    jobs: JobCache, pods: PodCache, states: RuntimeStateStore, answer: Any, on_report: Any = None
) -> ReportPoller:
    client = cast("ReportClient", Scripted(answer))
    return ReportPoller(jobs, pods, states, client, on_report or (lambda *_: None), lambda: NOW, PollRate(0.01, 10))


async def test_a_report_that_raises_an_exception_ends_neither_the_poller_nor_the_poll_of_another_job() -> None:
    jobs, pods = jobs_and_pods("10.0.0.1", "10.0.0.2")
    polled: list[str] = []

    async def answer(ip: str) -> ProgressReport:
        polled.append(ip)
        huge = {"step": 10**400, "total_steps": 1} if ip == "10.0.0.1" else {"step": 1}
        return TRAINS.model_copy(update=huge)  # as if no bound had been checked

    states = running_leaders(jobs)
    poller = polls(jobs, pods, states, answer)
    running = asyncio.create_task(poller.run())
    await until(lambda: polled.count("10.0.0.1") >= 3)
    assert not running.done()
    reports = [states.get(job.key, job.uid).report for job in jobs.all()]
    assert [report is not None for report in reports] == [False, True]
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_a_job_without_a_plan_and_one_whose_leader_does_not_run_are_not_polled() -> None:
    jobs, pods = jobs_and_pods("10.0.0.1", "10.0.0.2", "10.0.0.3")
    states, polled = running_leaders(jobs), list[str]()
    states.evict(jobs.all()[0].key)
    ended = raw_pod(7, uid=jobs.all()[2].uid, job="job-2", job_uid=jobs.all()[2].uid)
    ended["status"] = {"phase": "Succeeded", "podIP": "10.0.0.3"}
    pods.upsert(ended)

    async def answer(ip: str) -> ProgressReport:
        polled.append(ip)
        return TRAINS

    await poll_once(polls(jobs, pods, states, answer), evaluators=True)
    assert polled == ["10.0.0.2"]


async def test_an_answer_after_the_deletion_of_the_job_is_not_stored_for_a_new_job_of_its_name() -> None:
    jobs, pods = jobs_and_pods("10.0.0.1")
    (old,) = jobs.all()
    states, reported = running_leaders(jobs), list[NamespacedName]()

    async def answer(_: str) -> ProgressReport:
        jobs.evict(old)
        made = manifest(old.key.name, worker={"replicas": 1})
        made["metadata"] |= {"uid": "another", "resourceVersion": "9", "generation": 1}
        jobs.upsert(made)
        states.get(old.key, "another").create_error = "kept"
        return TRAINS

    await poll_once(polls(jobs, pods, states, answer, lambda key, _: reported.append(key)), evaluators=True)
    assert (states.get(old.key, "another").create_error, reported) == ("kept", [])


async def test_a_job_that_is_still_being_polled_is_not_polled_again() -> None:
    jobs, pods = jobs_and_pods("10.0.0.9", "10.0.0.1")
    polled: list[str] = []

    async def answer(ip: str) -> ProgressReport:
        polled.append(ip)
        if ip == "10.0.0.9":
            await asyncio.Event().wait()
        return TRAINS

    running = asyncio.create_task(polls(jobs, pods, running_leaders(jobs), answer).run())
    await until(lambda: polled.count("10.0.0.1") >= 3)
    assert polled.count("10.0.0.9") == 1
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_the_last_report_is_kept_after_an_answer_that_is_not_a_report(caplog: pytest.LogCaptureFixture) -> None:
    jobs, pods = jobs_and_pods("10.0.0.1")
    (job,) = jobs.all()
    unreadable, states = Unreported.UNREADABLE, running_leaders(jobs)
    answers: list[ProgressReport | Unreported] = [TRAINS, unreadable, unreadable, Unreported.NO_ANSWER]

    async def answer(_: str) -> ProgressReport | Unreported:
        return answers.pop(0)

    poller = polls(jobs, pods, states, answer)
    while answers:
        await poll_once(poller, evaluators=False)
    report = states.get(job.key, job.uid).report
    assert report is not None
    assert report.content == TRAINS
    assert caplog.text.count("answers with no report") == 1


async def test_a_leader_is_silent_while_it_gives_no_answer_and_not_while_it_gives_one_that_is_no_report() -> None:
    jobs, pods = jobs_and_pods("10.0.0.1")
    (job,) = jobs.all()
    answers, states, reported = list[Unreported](), running_leaders(jobs), list[tuple[NamespacedName, float]]()

    async def answer(_: str) -> Unreported:
        return answers.pop()

    poller = polls(jobs, pods, states, answer, lambda *enqueued: reported.append(enqueued))
    state = states.get(job.key, job.uid)
    given_answers = (Unreported.UNREADABLE, Unreported.NO_ANSWER, Unreported.NO_SERVER, Unreported.UNREADABLE)
    for given, silent in zip(given_answers, (False, True, True, False), strict=True):
        answers.append(given)
        state.answered_at = time.monotonic() - 1000
        await poll_once(poller, evaluators=False)
        assert state.leader_unresponsive is silent
    assert reported == [(job.key, 0.0)] * 2, "at the beginning and at the end of the silence"
