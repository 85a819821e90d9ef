"""A slow replica in the report of the leader: the status names it, and one event has its times."""

from typing import Any

import pytest
from support.bench import KEY, Bench, bench_served
from support.factories import UID, Lifecycle, event_reasons, manifest, report

from tfdist.contract_reports import SlowReplica
from tfdist.observed.job_view import TimestampedReport
from tfdist_operator.cache.runtime_state import BURST

BOTH = "worker-0:R worker-1:R"


def slow(index: int = 1, *, role: str = "worker", waits: float = 0.0) -> TimestampedReport:
    """Return a report in which a replica takes 400 ms instead of 200 ms, and waits for its input in so many of them."""
    times = {"ownMillis": 400, "othersMillis": 200, "inputWaitMillis": waits}
    return report(slow_replica=SlowReplica.model_validate({"role": role, "index": index} | times))


def slowest(story: Lifecycle) -> Any:
    return story.status["progress"].get("slowestReplica")


@pytest.fixture
def story() -> Lifecycle:
    """A job whose two workers run and have reported progress."""
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, report=report())
    return story


def test_a_slow_replica_is_named_in_the_status_and_in_one_event(story: Lifecycle) -> None:
    assert slowest(story) is None
    (event,) = story.reconcile(BOTH, report=slow()).events
    assert (event.reason, event.warning, event.identity) == ("SlowReplica", True, "0-worker-1")
    assert event.message.startswith("worker-1 (pod fashion-worker-1")
    assert "takes 400 ms for its part of a step, the other replicas take 200 ms and wait for it" in event.message
    assert event.message.endswith("check the load and the hardware of its node")
    assert slowest(story) == "worker-1"
    assert event_reasons(story.reconcile(BOTH, report=slow())) == []


def test_the_message_about_a_replica_that_waits_for_its_input_states_so(story: Lifecycle) -> None:
    (event,) = story.reconcile(BOTH, report=slow(waits=190.0)).events
    assert event.message.endswith("190 ms of that is waiting for input: check its storage")


def test_the_message_about_a_worker_of_parameter_servers_states_no_wait_of_others() -> None:
    pods = "chief-0:R worker-0:R worker-1:R ps-0:R"
    servers = {"strategy": "ParameterServer", "chief": {}, "worker": {"replicas": 2}, "ps": {"replicas": 1}}
    story = Lifecycle(pods, image="a", command=["b"], **servers)
    (event,) = story.reconcile(pods, report=slow()).events
    assert "the other replicas take 200 ms: check the load" in event.message


def test_a_replica_that_is_no_longer_slow_is_removed_from_the_status(story: Lifecycle) -> None:
    story.reconcile(BOTH, report=slow())
    assert event_reasons(story.reconcile(BOTH, report=report(6))) == []
    assert slowest(story) is None


def test_training_that_restarts_has_no_slow_replica(story: Lifecycle) -> None:
    story.reconcile(BOTH, report=slow())
    assert story.reconcile("worker-0:R worker-1:F", report=slow()).status is not None
    assert slowest(story) is None


@pytest.mark.parametrize(("role", "index"), [("worker", 2), ("chief", 0), ("evaluator", 0)])
def test_a_replica_that_the_gang_does_not_have_is_ignored(story: Lifecycle, role: str, index: int) -> None:
    assert event_reasons(story.reconcile(BOTH, report=slow(index, role=role))) == []
    assert slowest(story) is None


async def test_a_pod_that_names_other_replicas_all_the_time_causes_a_bounded_number_of_events() -> None:
    """Given a report that names another replica each time; then events end at the budget, and the status does not."""
    async with bench_served() as bench:
        await running(bench)
        for number in range(3 * BURST):
            bench.states.get(KEY, UID).report = slow(number % 2)
            await bench.reconcile()
        assert 1 < bench.api.requests("events").count("POST") <= BURST


async def test_an_event_is_requested_once_while_the_status_is_not_written() -> None:
    async with bench_served() as bench:
        await running(bench)
        for _ in range(5):
            bench.states.get(KEY, UID).report = slow()
            await bench.reconcile()
        assert bench.api.requests("events").count("POST") == 1


async def running(bench: Bench) -> None:
    """Run a job with two workers, and clear the recorded requests."""
    bench.job(spec=manifest(worker={"replicas": 2})["spec"])
    await bench.reconcile()
    bench.run("worker-0", "worker-1")
    await bench.reconcile()
    bench.api.asked.clear()
