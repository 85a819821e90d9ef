"""Warnings about a valid specification, on the job itself."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.bench import JOB, Bench, bench_served
from support.factories import manifest

from tfdist_operator.cache import specifications

IGNORED: dict[str, Any] = {"command": ["python", "mine.py"]}
"""A command that does not start the trainer, in a job with `training`."""


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_served() as made:
        yield made


def spec_warnings(bench: Bench) -> list[str]:
    """Return the messages of the events of warnings."""
    return [b["message"] for _, p, b in bench.api.bodies if p.endswith("/events") and b["reason"] == "SpecWarning"]


async def test_a_job_with_warnings_runs_and_has_one_event_with_all_of_them(bench: Bench) -> None:
    # given a job of which `tfdist validate` warns twice
    bench.job(spec=manifest(**IGNORED, template={"spec": {"hostNetwork": True}})["spec"])
    # when it is reconciled, again and again
    for _ in range(3):
        assert await bench.reconcile()
    # then it has its pods, and one event names both fields
    (message,) = spec_warnings(bench)
    assert "spec.command: the command does not start the bundled trainer" in message
    assert "spec.template.spec.hostNetwork: pods with hostNetwork" in message
    assert bench.api.requests("pods") == ["POST", "POST"]


async def test_a_warning_costs_no_write_of_the_status(bench: Bench) -> None:
    bench.job()
    await bench.reconcile()
    expected = bench.api.requests("tfdistjobs")
    bench.api.objects.clear()
    bench.api.asked.clear()
    bench.start()
    bench.job(spec=manifest(**IGNORED)["spec"])
    for _ in range(3):
        await bench.reconcile()
    assert bench.api.requests("tfdistjobs") == expected


async def test_a_new_generation_with_warnings_has_an_event_of_its_own(bench: Bench) -> None:
    bench.job(spec=manifest(**IGNORED)["spec"])
    await bench.reconcile()
    bench.change(runPolicy={"backoffLimit": 1})
    await bench.reconcile()
    await bench.reconcile()
    assert len(spec_warnings(bench)) == 2


async def test_a_new_process_does_not_repeat_a_warning(bench: Bench) -> None:
    bench.job(spec=manifest(**IGNORED)["spec"])
    await bench.reconcile()
    bench.start()
    await bench.reconcile()
    assert len(spec_warnings(bench)) == 1
    assert "warnings" not in bench.api.objects[JOB]["status"]


async def test_a_job_without_warnings_has_no_such_event(bench: Bench) -> None:
    bench.job()
    await bench.reconcile()
    assert spec_warnings(bench) == []


async def test_a_bug_in_a_warning_does_not_keep_a_job_from_running(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(specifications, "warnings", broken)
    bench.job(spec=manifest(**IGNORED)["spec"])
    assert await bench.reconcile()
    assert bench.api.requests("pods") == ["POST", "POST"]
