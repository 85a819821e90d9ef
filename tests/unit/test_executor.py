"""The executor: its requests, their order, and what it does when the API server rejects one."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from support.bench import EVENTS, JOB, KEY, PODS, Bench, bench_served
from support.factories import NOW, UID, condition, manifest, report

from tfdist.timestamps import rfc3339
from tfdist_operator.kube.slow_start import run_each

WORKER = f"{PODS}/fashion-worker-0"


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_served() as made:
        yield made


async def running(bench: Bench, workers: int = 2) -> None:
    """Run a job with all its workers, and clear the recorded requests."""
    bench.job(spec=manifest(worker={"replicas": workers})["spec"])
    await bench.reconcile()
    bench.run(*(f"worker-{i}" for i in range(workers)))
    await bench.reconcile()
    bench.api.asked.clear()


# Events (they follow the status at once)


async def test_events_are_published_right_after_the_status_and_survive_a_later_failure(bench: Bench) -> None:
    """Given a restart whose first creation is answered with 500; then its event is published exactly once."""
    await running(bench)
    bench.fail("worker-1")
    bench.api.reject = lambda method, path: (
        (500, "InternalError", "etcd", "") if method == "POST" and path.endswith("/pods") else None
    )
    assert not await bench.reconcile()
    assert bench.api.requests("events") == ["POST"]
    status, event = (next(i for i, a in enumerate(bench.api.asked) if part in a) for part in ("/status", "/events"))
    assert event == status + 1
    bench.api.reject = lambda _method, _path: None
    assert await bench.reconcile()
    assert bench.api.requests("events") == ["POST"]


async def test_an_event_has_the_times_by_which_kubectl_and_other_tools_sort_events(bench: Bench) -> None:
    """Given a job that starts; then its event has the times of events.k8s.io and of the core API."""
    await running(bench)
    (event,) = (found for path, found in bench.api.objects.items() if path.startswith(EVENTS))
    seconds = rfc3339(NOW)
    times = [event[name] for name in ("firstTimestamp", "lastTimestamp", "eventTime")]
    assert times == [seconds, seconds, seconds.replace("Z", ".000000Z")]
    assert (event["count"], event["reportingComponent"]) == (1, "tfdist.dev/controller")


# Writes of counters


async def test_a_write_of_progress_is_known_as_one_of_counters_and_a_decision_is_not(bench: Bench) -> None:
    """Given a job that trains; when its step and then a failure are written, then only the step is a counter."""
    await running(bench)
    bench.states.get(KEY, UID).report = report(5)
    bench.states.get(KEY, UID).status_written_at = float("-inf")
    for written in (True, False):
        await bench.reconcile()
        stored = bench.jobs.get(KEY)
        assert stored is not None
        assert stored.settled is written
        bench.fail("worker-1")


# Deletes


async def test_pods_are_deleted_in_parallel_and_one_failure_stops_no_other_deletion(bench: Bench) -> None:
    """Given forty replicas to be deleted; when one deletion fails, then the others are sent, several at a time."""
    await running(bench, workers=40)
    bench.fail("worker-1")
    in_flight, most = 0, 0

    async def slow(method: str) -> None:
        nonlocal in_flight, most
        in_flight += method == "DELETE"
        most = max(most, in_flight)
        await asyncio.sleep(0.01)
        in_flight -= method == "DELETE"

    bench.api.before = slow
    bench.api.reject = lambda method, path: (
        (500, "InternalError", "", "") if method == "DELETE" and path.endswith("worker-0") else None
    )
    assert not await bench.reconcile()
    assert len(bench.api.requests("pods/fashion-worker-", method="DELETE")) == 39
    assert 3 < most <= 16


WEBHOOK = 'Internal error occurred: failed calling webhook "pods.example.com": connection refused'


@pytest.mark.parametrize(("code", "message"), [(500, WEBHOOK), (500, "etcdserver: timeout"), (409, "object changed")])
async def test_pods_of_an_ended_attempt_are_deleted_although_those_of_the_next_cannot_be_created(
    bench: Bench, code: int, message: str
) -> None:
    await running(bench)
    bench.fail("worker-1")
    error = (code, "InternalError" if code == 500 else "Conflict", message, "")
    bench.api.reject = lambda method, path: error if method == "POST" and path.endswith("/pods") else None
    assert not await bench.reconcile()
    assert bench.api.requests("pods/fashion-worker-0", method="DELETE") == ["DELETE"]


@pytest.mark.parametrize("code", [403, 422, 500])
async def test_pods_of_an_ended_attempt_are_deleted_although_the_changes_of_others_are_rejected(
    bench: Bench, code: int
) -> None:
    # given a replica that failed, another without its owner, and a policy that denies updates of pods
    await running(bench)
    bench.api.objects[WORKER]["metadata"]["ownerReferences"] = []
    bench.pods.upsert(bench.api.put(WORKER, bench.api.objects[WORKER]))
    bench.fail("worker-1")
    denied = (code, "Forbidden", "admission policy: updates of pods are denied", "")
    bench.api.reject = lambda method, path: denied if method == "PATCH" and "/pods/" in path else None
    # when the gang restarts
    assert not await bench.reconcile()
    # then the rejection holds up no deletion
    assert "PATCH" in bench.api.requests("pods/fashion-worker-0")
    assert bench.api.requests("pods/fashion-worker-0", method="DELETE") == ["DELETE"]


async def test_a_pod_webhook_that_fails_is_reported_with_its_text(bench: Bench) -> None:
    bench.job()
    error = (500, "InternalError", WEBHOOK, "")
    bench.api.reject = lambda method, path: error if method == "POST" and path.endswith("/pods") else None
    assert not await bench.reconcile()
    await bench.reconcile()
    conditions = bench.api.objects[JOB]["status"]["conditions"]
    (created,) = [c for c in conditions if c["reason"] == "FailedCreate"]
    assert WEBHOOK in created["message"]


async def test_after_a_failed_action_the_others_run_and_the_first_error_is_raised() -> None:
    ran: list[int] = []

    async def action(number: int) -> None:
        ran.append(number)
        if number:
            raise ValueError(number)

    with pytest.raises(ValueError, match="1"):
        await run_each(*(partial(action, number) for number in (1, 0, 2)))
    assert ran == [1, 0, 2]


async def test_a_deletion_names_the_uid_of_the_pod_and_is_sent_once(bench: Bench) -> None:
    await running(bench)
    bench.fail("worker-1")
    await bench.reconcile()
    await bench.reconcile()
    deletes = [(p, b) for m, p, b in bench.api.bodies if m == "DELETE"]
    assert deletes == [(WORKER, {"preconditions": {"uid": WORKER}})]


async def test_a_pod_that_is_deleted_at_once_fails_no_reconcile(bench: Bench) -> None:
    """Given ended pods, whose deletion is answered without a version; then the reconcile succeeds."""
    bench.job(spec=manifest(runPolicy={"backoffLimit": 0, "keepFailedPods": 0, "cleanPodPolicy": "All"})["spec"])
    await bench.reconcile()
    bench.fail("worker-0")
    bench.fail("worker-1")
    for _ in range(3):
        assert await bench.reconcile()
    assert WORKER not in bench.api.objects


async def test_a_pod_of_the_same_name_with_another_uid_is_not_deleted(bench: Bench) -> None:
    """Given a pod that was replaced by another of its name; when it is to be deleted, then the new pod is kept."""
    await running(bench)
    bench.fail("worker-1")
    bench.api.objects[WORKER]["metadata"]["uid"] = "another"
    assert await bench.reconcile()
    assert "deletionTimestamp" not in bench.api.objects[WORKER]["metadata"]


async def test_a_change_of_a_pod_names_its_uid(bench: Bench) -> None:
    """Given a pod that lost its owner; when it is adopted, then only if it is still the same pod."""
    await running(bench)
    orphan = bench.api.objects[WORKER]
    orphan["metadata"]["ownerReferences"] = []
    bench.pods.upsert(bench.api.put(WORKER, orphan))
    await bench.reconcile()
    (body,) = (b for m, p, b in bench.api.bodies if (m, p) == ("PATCH", WORKER))
    assert body["metadata"]["uid"] == WORKER


# Names that are in use


@pytest.mark.parametrize(
    ("meta", "holder"),
    [
        ({"labels": {"app": "web"}}, "nothing that manages it"),
        ({"ownerReferences": [{"kind": "StatefulSet", "name": "fashion", "controller": True}]}, "StatefulSet fashion"),
        ({"labels": {"tfdist.dev/job": "fashion", "tfdist.dev/job-uid": "old"}}, "an earlier TFDistJob of this name"),
    ],
)
async def test_a_pod_name_in_use_is_reported_in_a_condition_with_the_owner(
    bench: Bench, meta: dict[str, Any], holder: str
) -> None:
    """Given a foreign pod of a replica's name; then the status reports it at once, and the creation is repeated."""
    theirs = bench.api.put(WORKER, {"metadata": {"name": "fashion-worker-0", "namespace": "team"} | meta})
    bench.job()
    assert not await bench.reconcile()
    assert KEY in bench.queue._dirty, "at once, so that the status reports it"
    assert not await bench.reconcile()
    found = condition(bench.api.objects[JOB]["status"], "PodsReady")
    assert found["reason"] == "FailedCreate"
    assert f"pod team/fashion-worker-0 is there and belongs to {holder}" in found["message"]
    assert bench.api.objects[WORKER] == theirs
    del bench.api.objects[WORKER]
    assert await bench.reconcile()
    assert bench.api.objects[WORKER]["metadata"]["labels"]["tfdist.dev/job-uid"] == UID


async def test_a_terminating_pod_of_the_replaced_job_is_named_while_the_new_job_waits_for_it(bench: Bench) -> None:
    """Given `kubectl replace --force`: the pods of the earlier job terminate for their grace period."""
    labels = {"tfdist.dev/job": "fashion", "tfdist.dev/job-uid": "old"}
    meta = {"name": "fashion-worker-0", "namespace": "team", "deletionTimestamp": "2030-01-02T03:04:35Z"}
    bench.api.put(WORKER, {"metadata": meta | {"labels": labels}})
    bench.job()
    await bench.reconcile()
    await bench.reconcile()
    message = bench.api.objects[JOB]["status"]["summary"]["message"]
    assert "fashion-worker-0 is there and belongs to an earlier TFDistJob of this name; it is being deleted" in message
    del bench.api.objects[WORKER]
    assert await bench.reconcile()
    assert bench.api.objects[WORKER]["metadata"]["labels"]["tfdist.dev/job-uid"] == UID


async def test_a_pod_that_an_earlier_process_created_is_cached_from_then_on(bench: Bench) -> None:
    """Given a watch that lags; when a pod is created a second time, then the existing pod is cached."""
    bench.job()
    await bench.reconcile()
    known = bench.api.objects[JOB]
    bench.start(pods=False)
    bench.jobs.upsert(known)
    assert await bench.reconcile()
    assert [p.name for p in bench.pods.job_pods(KEY, UID)] == ["fashion-worker-0", "fashion-worker-1"]
