"""What the probes answer: a dead watch and a blocked loop are noticed, and a standby in sync is ready.

A controller that cannot be asked says so and ends.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tfdist_operator.health import LOOP_BLOCKED_SECONDS, WATCH_SILENCE_SECONDS, LoopLag, Probes
from tfdist_operator.kube.client import Client
from tfdist_operator.kube.informer import Informer, Sink, Watched
from tfdist_operator.kube.job_store import JobStore
from tfdist_operator.kube.pod_store import Key
from tfdist_operator.kube.queue import KeyedQueue
from tfdist_operator.kube.sinks import WatchedJobs, WatchedPods


class Replica:
    """The parts that the probes ask, on a free port; nothing of them runs."""

    def __init__(self) -> None:
        client = Client("http://127.0.0.1:1", None, dict)
        jobs, pods = JobStore(), WatchedPods(lambda _: None)
        sinks: dict[str, Sink] = {"tfdistjobs": WatchedJobs(jobs, lambda _: None), "pods": pods}
        self.informers = [Informer(client, Watched.of("v1", plural, ""), sink) for plural, sink in sinks.items()]
        self.lag = LoopLag()
        self.role = "leading"
        self.probes = Probes(self.informers, jobs, pods, KeyedQueue[Key](), self.lag, lambda: self.role)

    async def ask(self, path: str) -> tuple[int, str]:
        runner = self.probes._runner
        assert runner is not None
        port = next(address[1] for address in runner.addresses if len(address) == 2)  # that of IPv4
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, (await answer.text()).strip()


@pytest.fixture
async def replica() -> AsyncIterator[Replica]:
    made = Replica()
    await made.probes.start(0)
    yield made
    await made.probes.stop()


async def test_a_replica_is_not_ready_while_a_kind_is_being_listed(replica: Replica) -> None:
    assert await replica.ask("/readyz") == (503, "tfdistjobs are being listed\npods are being listed")
    replica.informers[0].synced.set()
    assert await replica.ask("/readyz") == (503, "pods are being listed")


@pytest.mark.parametrize("role", ["leading", "standby; the leader is first"])
async def test_a_replica_in_sync_is_ready_whether_it_leads_or_not(replica: Replica, role: str) -> None:
    replica.role = role
    for informer in replica.informers:
        informer.synced.set()
    assert await replica.ask("/readyz") == (200, f"ready; {role}")
    assert await replica.ask("/healthz") == (200, "healthy")


@pytest.mark.parametrize("number", [0, 1])
async def test_a_watch_that_is_silent_for_long_makes_unhealthy_and_not_ready(replica: Replica, number: int) -> None:
    for informer in replica.informers:
        informer.synced.set()
    silent = replica.informers[number]
    silent.last_contact = time.monotonic() - WATCH_SILENCE_SECONDS - 1
    for path in ("/healthz", "/readyz"):
        status, text = await replica.ask(path)
        assert status == 503
        assert text == f"the watch of {silent.plural} was last heard of 301 s ago"


async def test_a_blocked_event_loop_makes_unhealthy_for_a_minute(replica: Replica) -> None:
    replica.lag.note(LOOP_BLOCKED_SECONDS + 1)
    assert await replica.ask("/healthz") == (503, "the event loop was blocked for 31 s")
    for _ in range(120):  # two measurements a second
        replica.lag.note(0.0)
    assert await replica.ask("/healthz") == (200, "healthy")


async def test_a_scrape_tells_the_sizes_of_the_caches(replica: Replica) -> None:
    status, text = await replica.ask("/metrics")
    assert status == 200
    assert 'tfdist_cached_objects{resource="pods"} 0.0' in text
    assert 'tfdist_cached_objects{resource="tfdistjobs"} 0.0' in text


def test_a_controller_whose_port_is_taken_says_so_and_ends_with_1(tmp_path: pathlib.Path) -> None:
    config = tmp_path / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "c"}}
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    users = [{"name": "c", "user": {}}]
    whole = {"current-context": "c", "contexts": [context], "clusters": [cluster], "users": users}
    config.write_text(json.dumps(whole))
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        given = {"KUBECONFIG": str(config), "TFDIST_PORT": str(port), "TFDIST_TRAINER_IMAGE": "trainer:1"}
        command = [sys.executable, "-m", "tfdist_operator.app"]
        ended = subprocess.run(command, env=os.environ | given, capture_output=True, text=True, timeout=60, check=False)
    last = json.loads((ended.stdout + ended.stderr).splitlines()[-1])
    assert (ended.returncode, last["event"]) == (1, "the controller cannot start")
    assert f"TFDIST_PORT={port}: " in last["why"]
    assert "address already in use" in last["why"]
