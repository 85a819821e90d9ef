"""Two controllers that act on one job, such as a leader and one that has not noticed that it leads no more."""

from collections.abc import AsyncIterator

import pytest
from prometheus_client import REGISTRY
from support.bench import EVENTS, JOB, KEY, Bench, bench_served
from support.factories import UID, failure_in_place, launcher_report

REASON = "Crash"


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_served() as made:
        yield made


async def running_job(bench: Bench) -> Bench:
    """Let there be a running job, and return a second controller that has observed the same of it."""
    bench.job()
    await bench.reconcile()
    bench.run("worker-0", "worker-1")
    await bench.reconcile()
    second = bench.another()
    await second.reconcile()
    return second


def deliver(bench: Bench) -> None:
    """Let the watches of a controller deliver everything."""
    bench.jobs.upsert(bench.api.objects[JOB])
    for path, found in bench.api.objects.items():
        if "/pods/" in path:
            bench.pods.upsert(found)


async def settle(*controllers: Bench) -> None:
    """Let the controllers reconcile in turn until none sends a request; the limit is reached only by a quarrel."""
    for _ in range(10):
        asked = len(controllers[0].api.asked)
        for each in controllers:
            deliver(each)
            await each.reconcile()
        if len(controllers[0].api.asked) == asked:
            return
    pytest.fail("the controllers still send requests")


def restart_events(bench: Bench) -> list[str]:
    found = (o for path, o in bench.api.objects.items() if path.startswith(EVENTS))
    return [event["metadata"]["name"] for event in found if event["reason"] == "Restarting"]


def restarts_counted() -> float:
    return REGISTRY.get_sample_value("tfdist_restarts_total", {"reason": REASON}) or 0.0


async def test_a_failure_that_two_controllers_see_is_recorded_once(bench: Bench) -> None:
    # given two controllers with the same view of a job
    second, before = await running_job(bench), restarts_counted()
    # when a replica fails, and the second controller plans from what the first has changed already
    bench.fail("worker-1")
    deliver(second)
    assert await bench.reconcile()
    assert not await second.reconcile(), "the API server rejects the status of a plan from an older version"
    await settle(second, bench)
    # then the failure, its restart and its event are there once
    status = bench.api.objects[JOB]["status"]
    assert (status["attempt"], status["restarts"]["counted"], len(status["failures"])) == (1, 1, 1)
    assert len(restart_events(bench)) == 1
    assert restarts_counted() - before == 1


async def test_a_failure_in_place_that_two_controllers_read_is_recorded_once(bench: Bench) -> None:
    # given two controllers with the same view of a job, and the same report of its launchers
    second, before = await running_job(bench), restarts_counted()
    for each in (bench, second):
        each.states.get(KEY, UID).report = launcher_report(failure_in_place(1, reason=REASON))
    # when both record it, the second from an older version of the job
    assert await bench.reconcile()
    assert not await second.reconcile()
    await settle(second, bench)
    # then
    status = bench.api.objects[JOB]["status"]
    assert (status["restarts"]["counted"], len(status["failures"])) == (1, 1)
    assert len(restart_events(bench)) == 1
    assert restarts_counted() - before == 1


async def test_a_new_leader_repeats_no_event_that_the_previous_one_has_published(bench: Bench) -> None:
    # given a restart that one controller has recorded and published
    await running_job(bench)
    before = restarts_counted()
    bench.fail("worker-1")
    await bench.reconcile()
    published = restart_events(bench)
    # when five others take over, one after another, within a minute
    for _ in range(5):
        bench.start()
        await settle(bench)
    # then it is there once
    assert (restart_events(bench), len(published)) == (published, 1)
    assert restarts_counted() - before == 1
