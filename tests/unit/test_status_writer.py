"""A status that the API server rejects: the invalid part is omitted, and the job's life cycle goes on."""

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from support.bench import JOB, KEY, Bench, bench_served
from support.factories import UID, condition

from tfdist_operator.cache.job_cache import CachedJob

Status = dict[str, Any]
RESULT = {"step": 9, "metrics": {"accuracy": 0.9}}


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_served() as made:
        made.job()
        yield made


def rejecting(field: str, found: Callable[[Status], bool] = lambda _: True) -> Callable[[Status], Mapping[str, str]]:
    """Return a schema that does not allow a field of the status, if it is there and `found` returns true."""

    def validate(content: Status) -> Mapping[str, str]:
        value: Any = content
        for step in field.replace("[", ".").replace("]", "").split("."):
            member = (
                value.get(step) if isinstance(value, dict) else value[int(step)] if isinstance(value, list) else None
            )
            if member is None:
                return {}
            value = member
        return {field: "not allowed"} if found(content["status"]) else {}

    return validate


def status(bench: Bench) -> Status:
    stored: Status = bench.api.objects[JOB]["status"]
    return stored


def events(bench: Bench) -> list[str]:
    made = [found for path, found in bench.api.objects.items() if "/events/" in path]
    return [found["message"] for found in made if found["reason"] == "StatusRejected"]


def writes(bench: Bench) -> int:
    return len(bench.api.requests("tfdistjobs", "PATCH"))


async def test_a_field_that_is_rejected_is_omitted_and_the_pods_are_created(bench: Bench) -> None:
    bench.api.validate = rejecting("status.summary.message")
    assert await bench.reconcile()
    assert bench.api.requests("pods") == ["POST", "POST"]
    assert "message" not in status(bench)["summary"]
    assert status(bench)["summary"]["ready"] == "0/2"
    (note,) = events(bench)
    assert "rejects status.summary.message; " in note
    assert "Apply the CRD of version" in note
    assert writes(bench) == 2


async def test_the_next_reconciles_send_no_rejected_status_again(bench: Bench) -> None:
    bench.api.validate = rejecting("status.summary.message")
    assert await bench.reconcile()
    for _ in range(3):
        assert await bench.reconcile()
    assert (writes(bench), len(events(bench))) == (2, 1)
    bench.run("worker-0", "worker-1")
    assert await bench.reconcile()
    assert (status(bench)["phase"], writes(bench), len(events(bench))) == ("Running", 3, 1)


async def test_time_alone_sends_no_status_while_a_field_is_rejected(bench: Bench) -> None:
    bench.api.validate = rejecting("status.summary.message")
    assert await bench.reconcile()
    bench.run("worker-0", "worker-1")
    assert await bench.reconcile()
    before = writes(bench)
    for _ in range(3):
        bench.now += timedelta(seconds=30)
        bench.states.get(KEY, UID).status_written_at = 0.0
        assert await bench.reconcile()
    assert (writes(bench), "usage" in status(bench)) == (before, True)


async def test_the_whole_status_is_tried_again_after_minutes(bench: Bench) -> None:
    bench.api.validate = rejecting("status.summary.message")
    assert await bench.reconcile()
    bench.api.validate = lambda _content: {}
    state = bench.states.get(KEY, UID)
    state.rejected_until, state.status_written_at = 0.0, 0.0
    assert await bench.reconcile()
    assert "message" in status(bench)["summary"]


async def test_a_condition_whose_text_is_rejected_keeps_its_type_and_status(bench: Bench) -> None:
    """Given a text that the schema does not allow, when a job fails, then the job is Failed all the same."""
    bench.api.validate = rejecting(
        "status.conditions[0].message", lambda found: "rejected" not in found["conditions"][0]["message"]
    )
    assert await bench.reconcile()
    found = condition(status(bench), status(bench)["conditions"][0]["type"])
    assert found["reason"]
    assert "rejected" in found["message"]


async def test_a_value_that_is_stored_already_and_now_rejected_is_removed(bench: Bench) -> None:
    assert await bench.reconcile()
    bench.api.validate = rejecting("status.summary")
    bench.run("worker-0", "worker-1")
    assert await bench.reconcile()
    assert status(bench)["phase"] == "Running"
    assert "summary" not in status(bench)


async def test_a_rejection_that_names_no_field_leaves_what_the_life_cycle_needs(bench: Bench) -> None:
    """Given an admission policy that rejects `summary` without naming it, then pods are created all the same."""
    bench.api.validate = lambda content: {"": "denied"} if "summary" in content["status"] else {}
    assert await bench.reconcile()
    assert bench.api.requests("pods") == ["POST", "POST"]
    assert status(bench)["gangs"]["training"]["attempt"] == 0
    assert {"phase", "conditions", "observedGeneration"} <= status(bench).keys()


async def test_a_rejection_keeps_what_the_planner_reads_back(bench: Bench) -> None:
    """Given stored results and a restart, when a policy rejects new summaries without naming them, then both remain."""
    assert await bench.reconcile()
    before = status(bench) | {"evaluation": {"best": RESULT}}
    bench.job(status=before)
    bench.api.validate = lambda content: {} if content["status"].get("summary") == before["summary"] else {"": "denied"}
    bench.run("worker-0", "worker-1")
    assert await bench.reconcile()
    stored = status(bench)
    assert (stored["phase"], stored["replicas"]["worker"]["running"]) == ("Running", 2)
    assert (stored["summary"], stored["evaluation"]) == (before["summary"], {"best": RESULT})


async def test_nothing_is_created_where_the_record_of_attempts_cannot_be_stored(bench: Bench) -> None:
    bench.api.validate = rejecting("status.gangs.training.attempt")
    assert not await bench.reconcile()
    assert bench.api.requests("pods") == []
    assert writes(bench) == 1
    (note,) = events(bench)
    assert "rejects status.gangs.training.attempt; " in note


async def test_a_status_that_is_always_rejected_costs_few_requests(bench: Bench) -> None:
    bench.api.validate = lambda _content: {"": "denied"}
    assert not await bench.reconcile()
    assert bench.api.requests("pods") == []
    assert writes(bench) == 2
    assert isinstance(bench.jobs.get(KEY), CachedJob)
