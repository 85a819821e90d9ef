"""Pods that succeed and are removed before the next reconcile: it observes their success, and the next one does not."""

from collections.abc import AsyncIterator

import pytest
from support.bench import JOB, KEY, Bench, bench_served
from support.factories import UID


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_served() as made:
        yield made


async def test_a_replica_that_succeeds_as_it_is_deleted_completes_the_job(bench: Bench) -> None:
    # given a job that is being suspended
    bench.job()
    await bench.reconcile()
    bench.run("worker-0", "worker-1")
    await bench.reconcile()
    bench.change(runPolicy={"suspend": True})
    await bench.reconcile()
    assert bench.api.objects[JOB]["status"]["phase"] == "Suspending"
    # when its pods end with 0 and are removed before the next reconcile
    bench.remove("worker-0", exit_code=0)
    bench.remove("worker-1", exit_code=0)
    assert await bench.reconcile()
    # then the job has succeeded, and is reconciled again without the pods
    assert bench.api.objects[JOB]["status"]["phase"] == "Succeeded"
    assert bench.pods.job_pods(KEY, UID) == ()
    assert len(bench.queue) == 1


async def test_a_job_that_is_deleted_leaves_no_removed_pod_in_memory(bench: Bench) -> None:
    bench.job()
    await bench.reconcile()
    bench.jobs.on_delete(bench.api.objects[JOB])
    bench.remove("worker-0", exit_code=0)
    assert bench.pods.removed_uids(KEY)
    await bench.reconcile()
    assert not bench.pods.removed_uids(KEY)
