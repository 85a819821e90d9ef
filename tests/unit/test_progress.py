"""Following running jobs: who is asked how often, and that one that does not answer holds up nobody."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY
from support.factories import NOW, UID, failure_in_place, launchers_tell, manifest
from support.raw import raw_pod

from tfdist.contract import Phase, Role
from tfdist.contract_reports import GangReport, ProgressReport
from tfdist_operator.kube.job_store import JobStore
from tfdist_operator.kube.memory import Memory
from tfdist_operator.kube.pod_store import Key, PodStore
from tfdist_operator.metrics import PROGRESS_RATIO
from tfdist_operator.progress import ProgressPoller
from tfdist_operator.reports import Reports
from tfdist_operator.rhythm import ASKED_PER_SECOND, WRITTEN_PER_SECOND, Rhythm

RUNNING = {
    "conditions": [{"type": "Running", "status": "True", "reason": "AllReplicasRun"}],
    "gangs": {"training": {"attempt": 0, "ran": True}},
}


class Replies:
    """The report ports: the replica at `10.0.0.9` never answers."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gang: GangReport | None = None

    async def progress(self, ip: str) -> ProgressReport:
        self.asked.append(ip)
        if ip == "10.0.0.9":
            await asyncio.Event().wait()
        place: dict[str, Any] = {"role": Role.WORKER, "index": 0, "attempt": 0, "phase": Phase.TRAINING}
        return ProgressReport(**place, step=len(self.asked), total_steps=2 * len(self.asked), gang=self.gang)


def jobs_and_pods(*ips: str) -> tuple[JobStore, PodStore]:
    """Return running jobs of one worker each, by the addresses of their pods."""
    jobs, pods = JobStore(), PodStore(lambda _: None)
    for number, ip in enumerate(ips):
        name, uid = f"job-{number}", f"{UID[:-4]}{number:04}"
        made = manifest(name, worker={"replicas": 1}) | {"status": RUNNING}
        made["metadata"] |= {"uid": uid, "resourceVersion": "5", "generation": 1}
        jobs.take(made)
        found = raw_pod(6, uid=uid, job=name, job_uid=uid)
        found["status"] = {"phase": "Running", "podIP": ip}
        pods.put(found)
    return jobs, pods


async def test_a_replica_that_does_not_answer_holds_up_nobody() -> None:
    jobs, pods = jobs_and_pods("10.0.0.9", "10.0.0.1")
    replies, told = Replies(), asyncio.Event()

    def on_report(key: Key, _: float) -> None:
        if key.name == "job-1":
            told.set()

    rhythm = Rhythm(0.01, 10)
    poller = ProgressPoller(jobs, pods, Memory(), cast("Reports", replies), on_report, lambda: NOW, rhythm)
    running = asyncio.create_task(poller.run())
    await asyncio.wait_for(told.wait(), 30)
    assert rhythm.jobs == 2
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_a_failure_in_place_is_told_at_once_and_counters_when_they_may_be_written() -> None:
    jobs, pods = jobs_and_pods("10.0.0.1")
    told: asyncio.Queue[float] = asyncio.Queue()
    replies, memory = Replies(), Memory()
    (job,) = jobs.all()
    memory.of(job.key, job.uid).status_written_at = time.monotonic()
    rhythm = Rhythm(0.01, 1000)
    on_report = lambda _key, seconds: told.put_nowait(seconds)  # noqa: E731  one line for one call
    poller = ProgressPoller(jobs, pods, memory, cast("Reports", replies), on_report, lambda: NOW, rhythm)
    running = asyncio.create_task(poller.run())
    assert await asyncio.wait_for(told.get(), 30) > 100
    replies.gang = launchers_tell(failure_in_place(1)).content.gang
    while await asyncio.wait_for(told.get(), 30) > 0:
        pass
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_a_job_has_series_while_it_runs_and_none_when_it_does_not() -> None:
    PROGRESS_RATIO.clear()  # of other tests
    jobs, pods = jobs_and_pods("10.0.0.1")
    replies, (job,) = Replies(), jobs.all()
    poller = ProgressPoller(
        jobs, pods, Memory(), cast("Reports", replies), lambda *_: None, lambda: NOW, Rhythm(0.01, 10)
    )
    running = asyncio.create_task(poller.run())
    await until(lambda: ratio(job.key) == 0.5)
    stopped = {"conditions": [{"type": "Running", "status": "False", "reason": "TrainingSucceeded"}]}
    raw = manifest(job.key.name) | {"status": stopped}
    raw["metadata"] |= {"uid": job.uid, "resourceVersion": "6", "generation": 1}
    jobs.take(raw)
    await until(lambda: ratio(job.key) is None)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


def ratio(key: Key) -> float | None:
    """Return what Prometheus would see of a job's progress."""
    return REGISTRY.get_sample_value("tfdist_job_progress_ratio", key._asdict())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that another task brings about."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  the series tell nobody that they have changed
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("jobs", [0, 1, 20])
def test_a_few_jobs_are_followed_as_closely_as_the_installation_wants(jobs: int) -> None:
    rhythm = Rhythm(2, 10, jobs)
    assert (rhythm.ask_every(), rhythm.write_every()) == (2, 10)


@pytest.mark.parametrize("jobs", [1000, 20000])
def test_thousands_of_jobs_share_what_all_may_cost(jobs: int) -> None:
    rhythm = Rhythm(2, 10, jobs)
    assert jobs / rhythm.ask_every() == pytest.approx(ASKED_PER_SECOND)
    assert jobs / rhythm.write_every() == pytest.approx(WRITTEN_PER_SECOND)
