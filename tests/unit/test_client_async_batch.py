"""Batches in a running event loop, which goes on while a batch is waited for."""

import asyncio
import pathlib
from collections.abc import Iterator

import pytest
from support.functions import train
from support.stored_cluster import JOBS, StoredCluster, connected

from tfdist import AsyncClient
from tfdist.client.errors import BatchFailed, NotFound, WaitTimeout

ARGUMENTS = [{"lr": 0.1}, {"lr": 0.2}, {"lr": 0.3}]
LIMIT = 120


@pytest.fixture
def cluster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoredCluster]:
    monkeypatch.chdir(tmp_path)
    made = StoredCluster()
    with connected(made):
        yield made


def names(cluster: StoredCluster) -> list[str]:
    return [path.rpartition("/")[2] for path in cluster.objects if path.startswith(f"{JOBS}/")]


def end(cluster: StoredCluster, name: str, phase: str = "Succeeded") -> None:
    path = f"{JOBS}/{name}"
    status = {"phase": phase, "observedGeneration": 1, "summary": {"message": "out of memory"}}
    cluster.objects[path] = {**cluster.objects[path], "status": status}


async def test_the_next_job_is_created_when_one_has_finished(cluster: StoredCluster) -> None:
    batch = await AsyncClient().map(train, ARGUMENTS, parallelism=2, name="rates")
    assert names(cluster) == ["rates-0", "rates-1"]

    completed = []
    end(cluster, "rates-1")
    async with asyncio.timeout(LIMIT):
        async for handle in batch.as_completed():
            completed.append(handle.name)
            for each in batch.jobs:
                end(cluster, each.name)

    assert completed == ["rates-1", "rates-0", "rates-2"]
    assert [each.name for each in batch.jobs] == ["rates-0", "rates-1", "rates-2"]
    assert len(batch) == 3


async def test_the_event_loop_goes_on_while_results_are_waited_for(cluster: StoredCluster) -> None:
    batch = await AsyncClient().map(train, ARGUMENTS, name="rates")
    waiting = asyncio.create_task(batch.results(timeout=LIMIT))
    for name in names(cluster):
        await asyncio.sleep(0)
        assert not waiting.done()
        end(cluster, name)

    assert [str(result.phase) for result in await waiting] == ["Succeeded"] * 3


async def test_jobs_that_have_failed_are_named(cluster: StoredCluster) -> None:
    batch = await AsyncClient().map(train, ARGUMENTS[:2], name="rates")
    end(cluster, "rates-0")
    end(cluster, "rates-1", "Failed")

    with pytest.raises(BatchFailed, match=r"^1 of 2 jobs failed: rates-1 failed: out of memory$"):
        await batch.results()
    assert [handle.name for handle in await batch.failures()] == ["rates-1"]
    assert await batch.status() == {"Succeeded": 1, "Failed": 1}


async def test_a_cancelled_batch_has_no_unfinished_job_and_creates_none(cluster: StoredCluster) -> None:
    batch = await AsyncClient().map(train, ARGUMENTS, parallelism=2, name="rates")
    end(cluster, "rates-0")

    await batch.cancel()
    await batch.wait(timeout=LIMIT)

    assert names(cluster) == ["rates-0"]


async def test_a_wait_that_is_cancelled_creates_no_further_job(cluster: StoredCluster) -> None:
    batch = await AsyncClient().map(train, ARGUMENTS, parallelism=1, name="rates")

    with pytest.raises(WaitTimeout, match=r"^batch rates after 0 s: 2 NotSubmitted, 1 Pending$"):
        await batch.wait(timeout=0)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(batch.wait(), 0.1)
    await batch.refresh()  # after a round that had begun
    end(cluster, "rates-0")
    await batch.refresh()

    assert names(cluster) == ["rates-0"]


async def test_a_batch_is_found_again_by_its_name(cluster: StoredCluster) -> None:
    client = AsyncClient()
    await client.map(train, ARGUMENTS[:1], name="rates")
    end(cluster, "rates-0")

    found = await client.batch("rates")

    assert [handle.job.phase for handle in found.jobs] == ["Succeeded"]
    with pytest.raises(NotFound, match='batch "absent" not found'):
        await client.batch("absent")
