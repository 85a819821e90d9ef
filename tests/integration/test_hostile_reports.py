"""Pods whose report ports send streams without an end, next to a job of another tenant, on a real API server."""

import asyncio
import itertools
import pathlib
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

import pytest
from support import controller as controllers
from support.api import Api, Json
from support.controller import SYSTEM
from support.factories import manifest
from support.hostile_pod import STREAMS, Answer, pod
from support.polling import wait_for
from support.trainers import ADDRESSES, report, trainers

from tfdist.contract import REPORT_PORT

pytestmark = pytest.mark.integration

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/tfdist-controller"
WAYS = [*STREAMS, *["interim responses"] * 8]
"""The stream of each hostile job. Eight jobs of interim responses once made every controller lose its Lease."""


@contextmanager
def answering(ways: dict[str, Answer], asked: dict[str, list[bytes]]) -> Iterator[None]:
    """Answer at the report port of each address, in a thread, until the block ends; `asked` gets the requests."""
    ready, loop, done = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with AsyncExitStack() as stack:
            for ip, answer in ways.items():
                await stack.enter_async_context(pod(answer, asked[ip], (ip, REPORT_PORT)))
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(60), "the report ports are not served"
    try:
        yield
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(60)


def new_job(api: Api, namespace: str, name: str) -> None:
    made = manifest(name, namespace, worker={"replicas": 1})
    del made["metadata"]["uid"]
    api.create_job(made)


def lease(api: Api) -> Json:
    """Return the holder and the number of changes of the Lease."""
    spec = api.do("GET", LEASE)["spec"]
    return {name: spec.get(name) for name in ("holderIdentity", "leaseTransitions")}


@pytest.mark.long
@pytest.mark.parametrize("polls", [3, 30])
def test_streams_of_many_jobs_cost_no_lease_and_delay_no_job_of_another_tenant(
    api: Api, namespace: str, tmp_path: pathlib.Path, polls: int
) -> None:
    api.send("DELETE", LEASE)
    settings = {"TFDIST_NAMESPACE": namespace, "TFDIST_LEADER_ELECTION": "true"}
    addresses = list(itertools.islice(ADDRESSES, len(WAYS)))
    asked: dict[str, list[bytes]] = {ip: [] for ip in addresses}
    steps = itertools.count(1)
    with (
        controllers.controller(api, tmp_path, **settings) as controller,
        trainers(api, namespace) as pods,
        answering({ip: STREAMS[way] for ip, way in zip(addresses, WAYS, strict=True)}, asked),
    ):
        # given a job of another tenant that trains, and a controller with the Lease
        wait_for("the Lease", controller.leads)
        held = lease(api)
        new_job(api, namespace, "neighbour")
        pods.serve("neighbour-worker-0", lambda: report(next(steps), 1_000_000, 64.0, 10.0))
        # when each hostile job has been polled many times
        for number, ip in enumerate(addresses):
            new_job(api, namespace, f"hostile-{number}")
            pods.move(f"hostile-{number}-worker-0", ip)
        wait_for("polls of every hostile job", lambda: controller.ready() and min(map(len, asked.values())) >= polls)
        # then the neighbour's progress is reported, it ends, and no controller has lost the Lease
        before = progress(api, namespace)
        wait_for("progress of the neighbour", lambda: progress(api, namespace) > before)
        api.end_container(namespace, "neighbour-worker-0", 0)
        wait_for("its end", lambda: api.job(namespace, "neighbour")["status"].get("phase") == "Succeeded")
        assert controller.leads()
        assert lease(api) == held


def progress(api: Api, namespace: str) -> int:
    """Return the step in the status of the neighbour."""
    return int(api.job(namespace, "neighbour").get("status", {}).get("progress", {}).get("step") or 0)
