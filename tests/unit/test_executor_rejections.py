"""The executor when the API server rejects a pod or a TensorBoard: what the status reports, and what continues."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.bench import JOB, KEY, PODS, Bench, bench_served, rejecting_pods
from support.factories import CHECKPOINT, UID, condition, manifest

from tfdist_operator.kube.workqueue import RETRY
from tfdist_operator.reconcile import creation

WORKER = f"{PODS}/fashion-worker-0"
DUPLICATE = 'Pod "fashion-worker-0" is invalid: spec.containers[1].name: Duplicate value: "tensorflow"'


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_served() as made:
        yield made


# Pods that the API server rejects


def rejecting(message: str, code: int = 422) -> Any:
    return lambda method, path: (code, "Invalid", message, "") if method == "POST" and path.endswith("/pods") else None


@pytest.mark.parametrize("code", [400, 422])
async def test_a_pod_that_can_never_be_valid_makes_the_job_invalid_with_the_message_of_the_server(
    bench: Bench, code: int
) -> None:
    """Given a template that the API server rejects; then the job is Invalid, and the pod is not sent again."""
    bench.job()
    bench.api.reject = rejecting(DUPLICATE, code)
    assert await bench.reconcile()
    assert await bench.reconcile()
    status = bench.api.objects[JOB]["status"]
    assert status["phase"] == "Invalid"
    assert condition(status, "Invalid")["reason"] == "PodRejected"
    assert DUPLICATE in condition(status, "Invalid")["message"]
    assert status["summary"]["message"].startswith("the API server rejects the pods")
    events = [b["reason"] for m, p, b in bench.api.bodies if p.endswith("/events")]
    assert events == ["Invalid"]
    bench.api.asked.clear()
    for _ in range(5):
        assert await bench.reconcile()
    assert bench.api.asked == []


async def test_a_rejected_job_continues_once_its_specification_is_corrected(bench: Bench) -> None:
    bench.job()
    bench.api.reject = rejecting(DUPLICATE)
    await bench.reconcile()
    await bench.reconcile()
    bench.api.reject = lambda _method, _path: None
    bench.change(runPolicy={"backoffLimit": 1})
    assert await bench.reconcile()
    assert WORKER in bench.api.objects
    await bench.reconcile()
    status = bench.api.objects[JOB]["status"]
    assert condition(status, "Invalid")["status"] == "False"
    assert status["phase"] == "Starting"


async def test_a_rejected_pod_is_sent_again_after_minutes_because_a_policy_may_have_changed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.job()
    bench.api.reject = rejecting(DUPLICATE)
    await bench.reconcile()
    await bench.reconcile()
    monkeypatch.setattr(creation, "_REJECTED_SECONDS", -1.0)
    bench.api.reject = lambda _method, _path: None
    assert await bench.reconcile()
    bench.pods.upsert(bench.api.objects[WORKER])
    assert await bench.reconcile()
    assert condition(bench.api.objects[JOB]["status"], "Invalid")["status"] == "False"


async def test_a_new_leader_keeps_a_rejected_job_invalid(bench: Bench) -> None:
    bench.job()
    bench.api.reject = rejecting(DUPLICATE)
    await bench.reconcile()
    await bench.reconcile()
    bench.start()
    writes = len(bench.api.requests("status"))
    assert await bench.reconcile()
    assert await bench.reconcile()
    assert bench.api.objects[JOB]["status"]["phase"] == "Invalid"
    assert len(bench.api.requests("status")) == writes


async def test_an_exceeded_quota_does_not_make_the_job_invalid(bench: Bench) -> None:
    bench.job()
    bench.api.reject = rejecting_pods('pods "fashion-worker-0" is forbidden: exceeded quota: small')
    assert not await bench.reconcile()
    await bench.reconcile()
    assert bench.api.objects[JOB]["status"]["phase"] == "Starting"


# TensorBoard


def rejecting_deployments(code: int = 403) -> Any:
    return lambda method, path: (
        (code, "Forbidden", "exceeded quota: small", "") if method == "POST" and path.endswith("/deployments") else None
    )


TENSORBOARD: dict[str, Any] = {"tensorBoard": {}, "checkpoint": CHECKPOINT}


@pytest.mark.parametrize("code", [403, 422, 500])
async def test_a_rejected_tensorboard_fails_no_reconcile_and_is_published_once(bench: Bench, code: int) -> None:
    """Given a TensorBoard that is rejected; then reconciles succeed, and neither it nor its event is repeated."""
    bench.job(spec=manifest(**TENSORBOARD)["spec"])
    bench.api.reject = rejecting_deployments(code)
    for _ in range(5):
        assert await bench.reconcile()
    assert bench.api.requests("deployments") == ["POST"]
    published = bench.api.requests("events")
    assert published.count("POST") <= 1
    delay = bench.queue._timers[KEY].when() - asyncio.get_running_loop().time()
    assert RETRY.first_seconds < delay <= 60
    assert WORKER in bench.api.objects
    for _ in range(2):  # when it is tried again, and rejected again
        bench.states.get(KEY, UID).tensorboard_retry_at = 0.0
        assert await bench.reconcile()
    assert bench.api.requests("deployments") == ["POST"] * 3
    assert bench.api.requests("events") == published
