"""Jobs that are expensive to plan are planned in a thread, and set aside if that takes too long; others go on."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.bench import JOB, KEY, Bench, bench_served
from support.factories import FIRST_ATTEMPT, condition, manifest

from tfdist.planner import Plan, plan
from tfdist_operator import budget
from tfdist_operator.budget import Budget
from tfdist_operator.reconcile import reconciler

LARGE: dict[str, Any] = manifest(env=[{"name": f"V{n}", "value": "x" * 1000} for n in range(50)])["spec"]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_served() as made:
        yield made


async def test_a_large_job_is_moved_to_the_queue_of_expensive_jobs_and_planned_there(bench: Bench) -> None:
    # given
    bench.job(spec=LARGE)
    # when
    assert await bench.reconcile()
    # then
    assert bench.api.requests("pods") == []
    assert await bench.expensive.get() == KEY
    assert await bench.reconcile_expensive()
    assert bench.api.requests("pods") == ["POST", "POST"]


async def test_the_main_loop_runs_while_an_expensive_job_is_planned(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    planning, go_on = threading.Event(), threading.Event()

    def held(*given: Any) -> Plan:
        planning.set()
        assert go_on.wait(240), "the main loop is blocked"
        return plan(*given)

    monkeypatch.setattr(reconciler, "plan", held)
    bench.job(spec=LARGE)
    reconcile = asyncio.create_task(bench.reconcile_expensive())
    await asyncio.to_thread(planning.wait, 240)
    assert budget.BUDGET.current == "planning of the job team/fashion"
    assert await bench.reconcile(), "the key is moved to the other queue"
    assert bench.api.requests("pods") == []
    go_on.set()
    assert await reconcile


async def test_a_job_whose_plan_was_expensive_is_planned_in_the_thread_from_then_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Budget, "run", lambda _, __, function: (function(), 0.2))
    bench.job()
    assert await bench.reconcile()
    assert len(bench.expensive) == 0
    assert await bench.reconcile()
    assert len(bench.expensive) == 1


@pytest.mark.parametrize("spec", [manifest()["spec"], LARGE], ids=["small", "large"])
async def test_a_job_whose_plan_took_over_a_second_is_set_aside_for_minutes_with_an_event(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any]
) -> None:
    monkeypatch.setattr(Budget, "run", lambda _, __, function: (function(), 3.0))
    # given a job whose plan takes three seconds of CPU time
    bench.job(spec=spec)
    reconcile = bench.reconcile_expensive if spec is LARGE else bench.reconcile
    assert await reconcile()
    # then its plan is executed, and the user is informed
    assert bench.api.requests("pods") == ["POST", "POST"]
    (event,) = [each for each in bench.api.objects.values() if each.get("reason") == "SetAside"]
    assert "took 3.0 s of CPU time; the job is planned again in 180 s" in event["message"]
    # and it is not planned until then
    sent = len(bench.api.asked)
    bench.change(successPolicy="AllWorkers")
    bench.clock += 179
    assert await bench.reconcile()
    assert await bench.reconcile_expensive()
    assert len(bench.api.asked) == sent
    assert len(bench.expensive) == 0
    bench.clock += 2
    await bench.reconcile()
    assert len(bench.expensive) == 1


async def test_a_plan_that_never_ends_is_interrupted_and_its_job_set_aside(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    limited, over = Budget(0.02), threading.Event()
    monkeypatch.setattr(budget, "BUDGET", limited)
    monkeypatch.setattr(reconciler, "BUDGET", limited)

    def watch() -> None:
        while not over.wait(0.001):
            limited.interrupt_overdue()

    def endless(*_: Any) -> Plan:
        while True:
            pass

    threading.Thread(target=watch, daemon=True).start()
    monkeypatch.setattr(reconciler, "plan", endless)
    bench.job()
    # when
    assert await bench.reconcile()
    # then
    (event,) = [each for each in bench.api.objects.values() if each.get("reason") == "SetAside"]
    assert "planning of the job team/fashion took more than 0.02 s" in event["message"]
    over.set()


async def test_a_job_waits_until_the_checkpoint_directory_of_a_large_one_is_known(bench: Bench) -> None:
    bench.job(spec=manifest(checkpoint={"directory": "s3://bucket/run"})["spec"])
    other = manifest() | {"spec": LARGE | {"checkpoint": {"directory": "s3://bucket/run"}}}
    other["metadata"] |= {"name": "other", "uid": "other", "generation": 1, "resourceVersion": "7"}
    bench.jobs.upsert(other)
    assert await bench.reconcile()
    assert bench.api.requests("pods") == []
    assert await bench.expensive.get() == ("team", "other")
    assert JOB in bench.api.objects


@pytest.mark.parametrize("spec", [manifest()["spec"], LARGE], ids=["small", "large"])
async def test_a_large_job_waits_for_the_job_that_writes_its_directory(bench: Bench, spec: dict[str, Any]) -> None:
    """Given a large job that was not read before; then its first plan knows the job that has begun in its directory."""
    shared = {"checkpoint": {"directory": "s3://bucket/run"}}
    other = manifest("other") | {"spec": spec | shared, "status": FIRST_ATTEMPT}
    other["metadata"] |= {"uid": "other", "generation": 1, "resourceVersion": "7"}
    bench.jobs.upsert(other)
    bench.job(spec=LARGE | shared)
    # when
    assert await bench.reconcile_expensive()
    if spec is LARGE:  # the other one is read before
        assert bench.api.requests("pods") == []
        assert len(bench.expensive) == 1
        large = bench.jobs.get(await bench.expensive.get())
        assert large is not None
        bench.jobs.locate(bench.jobs.read(large))
        assert await bench.reconcile_expensive()
    # then
    assert bench.api.requests("pods") == []
    assert condition(bench.api.objects[JOB]["status"], "PodsReady")["reason"] == "CheckpointDirectoryInUse"
