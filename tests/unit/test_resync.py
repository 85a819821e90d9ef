"""Caches that missed an event: a resync and a new leader correct them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
from support.factories import UID, manifest
from support.fake_api import FakeApi, served
from support.raw import raw_pod

from tfdist_operator.cache.informer import WatchedResource
from tfdist_operator.cache.job_cache import JobCache
from tfdist_operator.cache.pod_cache import PodCache
from tfdist_operator.cache.resync import CacheComparison, Resync
from tfdist_operator.kube.client import ApiClient
from tfdist_operator.kube.keys import NamespacedName

KEY = NamespacedName("team", "fashion")
JOB = "/apis/tfdist.dev/v1/namespaces/team/tfdistjobs/fashion"
POD = "/api/v1/namespaces/team/pods/fashion-worker-0"
JOBS = WatchedResource.for_kind("apis/tfdist.dev/v1", "tfdistjobs", "")
PODS = WatchedResource.for_kind("api/v1", "pods", "", "tfdist.dev/job")

MALFORMED: tuple[Any, ...] = (
    {},
    {"items": []},
    {"metadata": {"resourceVersion": "9"}},
    {"items": None, "metadata": None},
    {"items": {}, "metadata": {"resourceVersion": "9"}},
    {"items": [None], "metadata": {"resourceVersion": "9"}},
    {"items": [{"metadata": {"name": "a"}}], "metadata": {"resourceVersion": "9"}},
    {"items": [], "metadata": {"resourceVersion": "new"}},
)
"""Answers that are no list of the API server."""


class Bench:
    """Caches of jobs and pods of a fake API server, and their resync."""

    def __init__(self, api: FakeApi, client: ApiClient) -> None:
        self.api = api
        self.changed: list[NamespacedName] = []
        self.jobs = JobCache(on_change=self.changed.append)
        self.pods = PodCache(self.changed.append)
        self.connected_again: list[str] = []
        self.marked: list[float] = []
        self.slept: list[float] = []
        self.during_sleep: Callable[[], None] = lambda: None
        self.resyncs = 1
        caches = ((JOBS, self.jobs), (PODS, self.pods))
        compared = [CacheComparison(w, c, partial(self.connected_again.append, w.plural)) for w, c in caches]
        self.resync = Resync(client, compared[:1], compared[1:], self.marked.append, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.during_sleep()
        if seconds > 10:
            self.resyncs -= 1
            if self.resyncs < 0:
                raise asyncio.CancelledError
        await asyncio.sleep(0)

    def job(self) -> dict[str, Any]:
        """Create a job on the API server."""
        made = manifest()
        made["metadata"] |= {"uid": UID, "generation": 1}
        return self.api.put(JOB, made)

    def pod(self, **given: Any) -> dict[str, Any]:
        """Create a pod on the API server."""
        made = raw_pod(1, **given)
        return self.api.put(POD, made)

    async def run(self) -> None:
        """Run as the leader until the requested resyncs have ended."""
        with pytest.raises(asyncio.CancelledError):
            await self.resync.run(lambda: self.marked.append(-1.0))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with served() as (api, client):
        yield Bench(api, client)


async def test_a_resync_reads_a_job_whose_event_was_lost(bench: Bench) -> None:
    # given a job whose event was lost
    bench.job()
    # when the caches are compared
    await bench.resync.compare_jobs()
    # then it is cached, its key is dirty, and its watch gets a new connection
    assert bench.jobs.get(KEY) is not None
    assert bench.changed == [KEY]
    assert bench.connected_again == ["tfdistjobs"]


async def test_a_resync_reads_a_job_of_which_only_the_older_version_is_cached(bench: Bench) -> None:
    bench.jobs.upsert(bench.job())
    newer = bench.job()
    await bench.resync.compare_jobs()
    found = bench.jobs.get(KEY)
    assert found is not None
    assert found.resource_version == int(newer["metadata"]["resourceVersion"])


async def test_a_resync_removes_a_job_whose_deletion_was_lost(bench: Bench) -> None:
    bench.jobs.upsert(bench.job())
    del bench.api.objects[JOB]
    await bench.resync.compare_jobs()
    assert bench.jobs.get(KEY) is None
    assert bench.changed == [KEY, KEY]


async def test_caches_that_agree_cost_one_list_of_metadata(bench: Bench) -> None:
    bench.jobs.upsert(bench.job())
    await bench.resync.compare_jobs()
    assert bench.api.asked == ["GET /apis/tfdist.dev/v1/tfdistjobs"]
    assert (bench.connected_again, bench.slept) == ([], [])


async def test_a_watch_that_is_a_moment_behind_the_list_is_waited_for(bench: Bench) -> None:
    made = bench.job()
    bench.during_sleep = lambda: bench.jobs.upsert(made)
    await bench.resync.compare_jobs()
    assert bench.api.asked == ["GET /apis/tfdist.dev/v1/tfdistjobs"]
    assert bench.connected_again == []


async def test_every_job_is_marked_dirty_every_ten_minutes_spread_over_half_of_them(bench: Bench) -> None:
    bench.resyncs = 3
    await bench.run()
    assert bench.marked == [-1.0, 300.0, 300.0, 300.0]
    assert all(540 <= seconds <= 660 for seconds in bench.slept)
    assert len(set(bench.slept)) == len(bench.slept), "replicas and resyncs must not beat in step"


async def test_a_resync_whose_list_is_rejected_still_marks_every_job_dirty_and_is_soon_repeated(bench: Bench) -> None:
    begun = asyncio.Event()

    def reject_after_begin(_method: str, _path: str) -> tuple[int, str, str, str] | None:
        return (500, "InternalError", "etcd", "") if begun.is_set() else None

    bench.api.reject = reject_after_begin
    bench.resyncs = 2
    with pytest.raises(asyncio.CancelledError):
        await bench.resync.run(begun.set)
    assert bench.marked == [300.0, 300.0]
    assert bench.slept[1] <= 66


@pytest.mark.parametrize("answer", MALFORMED, ids=str)
async def test_a_resync_whose_list_is_malformed_removes_nothing_and_is_soon_repeated(bench: Bench, answer: Any) -> None:
    # given a cached job, and an answer 200 that is not a list, as of a proxy
    bench.jobs.upsert(bench.job())
    begun = asyncio.Event()
    bench.api.answer = lambda _method, path: answer if begun.is_set() and path.endswith("/tfdistjobs") else None
    bench.resyncs = 2
    # when the resync runs
    with pytest.raises(asyncio.CancelledError):
        await bench.resync.run(begun.set)
    # then it goes on with its retries, and the job stays cached
    assert bench.marked == [300.0, 300.0]
    assert bench.slept[1] <= 66
    assert bench.jobs.get(KEY) is not None


@pytest.mark.parametrize("answer", MALFORMED, ids=str)
async def test_a_replica_does_not_begin_by_a_malformed_list(bench: Bench, answer: Any) -> None:
    answers = iter([answer] * 3)
    bench.api.answer = lambda _method, path: next(answers, None) if path.endswith("/pods") else None
    bench.pod()
    await bench.resync.catch_up()
    assert bench.slept[:3] == [1.0] * 3
    assert len(bench.pods) == 1


async def test_a_list_of_null_items_is_empty(bench: Bench) -> None:
    bench.jobs.upsert(bench.job())
    version = str(bench.api.version + 1)
    bench.api.answer = lambda _method, _path: {"items": None, "metadata": {"resourceVersion": version}}
    await bench.resync.compare_jobs()
    assert len(bench.jobs) == 0


async def test_a_replica_does_not_begin_before_its_cache_has_the_pods_of_the_leader_before_it(bench: Bench) -> None:
    # given a pod that the last leader created, and a watch that was cut off without an error
    bench.pod()
    seen: list[int] = []
    bench.resyncs = 0
    # when this replica becomes the leader
    with pytest.raises(asyncio.CancelledError):
        await bench.resync.run(lambda: seen.append(len(bench.pods)))
    # then the pod is cached by the time it acts
    assert seen == [1]
    assert bench.connected_again == ["pods"]


async def test_a_pod_that_was_deleted_behind_a_cut_off_watch_is_not_there_when_this_replica_begins(
    bench: Bench,
) -> None:
    bench.pods.on_update(bench.pod())
    del bench.api.objects[POD]
    await bench.resync.catch_up()
    assert len(bench.pods) == 0


async def test_a_malformed_pod_with_our_labels_does_not_keep_a_replica_from_taking_over(bench: Bench) -> None:
    found = bench.pod()
    found["metadata"]["labels"]["tfdist.dev/role"] = "nonsense"
    await bench.resync.catch_up()
    assert len(bench.pods) == 0


async def test_a_replica_waits_with_acting_while_the_api_server_does_not_answer(bench: Bench) -> None:
    answers = iter([(500, "InternalError", "etcd", "")] * 3)
    bench.api.reject = lambda _method, path: next(answers, None) if path.endswith("/pods") else None
    waited_for: list[str] = []
    bench.during_sleep = lambda: waited_for.append(bench.resync.waiting_for)
    await bench.resync.catch_up()
    assert waited_for == ["pods"] * 3
    assert bench.resync.waiting_for == ""
