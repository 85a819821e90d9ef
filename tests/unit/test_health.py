"""The probes: a dead watch and a blocked event loop are unhealthy, and a standby in sync is ready.

A controller whose port is in use reports it and ends.
"""

import asyncio
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tfdist_operator import health
from tfdist_operator.cache.job_cache import JobCache
from tfdist_operator.cache.pod_cache import PodCache
from tfdist_operator.health import CONNECTIONS, WATCH_SILENCE_SECONDS, HealthServer, LoopLag
from tfdist_operator.kube.client import Connectivity
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.kube.workqueue import WorkQueue
from tfdist_operator.loop_thread import LoopThread


class FakeWatch:
    """A watch of `name`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.synced = asyncio.Event()
        self.last_contact = 1000.0


class Replica:
    """The components that the probes read, on a free port; none of them runs."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.connectivity = Connectivity(lambda: self.now)
        self.watches = [FakeWatch("tfdistjobs"), FakeWatch("pods")]
        self.lag = LoopLag()
        self.role = "leading"
        jobs, pods, queue = JobCache(), PodCache(lambda _: None), WorkQueue[NamespacedName]()
        self.probes = HealthServer(self.watches, self.connectivity, jobs, pods, queue, self.lag, lambda: self.role)

    def answered(self, seconds: float) -> None:
        """Let a request be answered after so many seconds."""
        self.now += seconds
        self.connectivity.on_response()

    @property
    def port(self) -> int:
        return self.probes.addresses[0][1]

    async def ask(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self.port}{path}") as answer:
            return answer.status, (await answer.text()).strip()


@pytest.fixture
async def replica() -> AsyncIterator[Replica]:
    """A replica that serves its probes in a thread, as the controller does."""
    made, thread = Replica(), LoopThread("probes")
    await thread.run(made.probes.start(0))
    yield made
    await thread.run(made.probes.stop())
    await thread.close()


async def test_a_replica_is_not_ready_while_a_kind_is_being_listed(replica: Replica) -> None:
    assert await replica.ask("/readyz") == (503, "tfdistjobs are being listed\npods are being listed")
    replica.watches[0].synced.set()
    assert await replica.ask("/readyz") == (503, "pods are being listed")


@pytest.mark.parametrize("role", ["leading", "standby; the leader is first"])
async def test_a_replica_in_sync_is_ready_whether_it_leads_or_not(replica: Replica, role: str) -> None:
    replica.role = role
    for watch in replica.watches:
        watch.synced.set()
    assert await replica.ask("/readyz") == (200, f"ready; {role}")
    assert await replica.ask("/healthz") == (200, "healthy")


@pytest.mark.parametrize("number", [0, 1])
async def test_a_watch_that_is_silent_while_requests_are_answered_makes_unhealthy(
    replica: Replica, number: int
) -> None:
    replica.answered(1)
    replica.answered(WATCH_SILENCE_SECONDS + 1)
    replica.watches[1 - number].last_contact = replica.now
    silent = replica.watches[number]
    text = f"the watch of {silent.name} has received nothing for 181 s, while the API server answers"
    assert await replica.ask("/healthz") == (503, text)
    silent.last_contact = replica.now
    assert await replica.ask("/healthz") == (200, "healthy")


async def test_an_outage_of_the_api_server_restarts_no_replica(replica: Replica) -> None:
    replica.answered(1)
    replica.connectivity.on_failure()
    replica.now += 10 * WATCH_SILENCE_SECONDS
    assert await replica.ask("/healthz") == (200, "healthy"), "the other replicas get no answers either"


async def test_after_an_outage_the_watches_have_the_usual_time_to_resume(replica: Replica) -> None:
    replica.answered(1)
    replica.connectivity.on_failure()
    replica.answered(10 * WATCH_SILENCE_SECONDS)  # a renewal of the Lease is answered before the watches are resumed
    assert await replica.ask("/healthz") == (200, "healthy")
    replica.answered(WATCH_SILENCE_SECONDS + 1)
    status, text = await replica.ask("/healthz")
    assert (status, len(text.splitlines())) == (503, 2), "both watches did not come back"


async def test_probes_and_metrics_are_answered_while_the_main_loop_is_blocked(replica: Replica) -> None:
    def blocking(path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{replica.port}{path}", timeout=240) as answer:
            return bytes(answer.read())

    assert blocking("/healthz") == b"healthy\n"
    assert b"tfdist_event_loop_lag_seconds" in blocking("/metrics")


async def test_a_main_loop_that_is_blocked_is_stuck_once_another_loop_has_run_for_long_without_it(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 0

    async def passes(_: float) -> None:
        nonlocal seconds
        seconds += 1
        if seconds in {20, 40}:  # the main loop runs
            replica.lag.record(19.0)

    monkeypatch.setattr(asyncio, "sleep", passes)
    await replica.lag.wait_until_stuck(30)
    assert seconds == 70


async def test_metrics_that_are_expensive_are_made_once_for_many_scrapes(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0

    def expensive() -> bytes:
        nonlocal made
        made, began = made + 1, time.thread_time()
        while time.thread_time() == began:
            pass
        return f"text {made}".encode()

    monkeypatch.setattr(health, "generate_latest", expensive)
    monkeypatch.setattr(health, "_METRICS_SECONDS", 3600.0)
    monkeypatch.setattr(health, "_METRICS_SHARE", 1e-12)
    answers = await asyncio.gather(*(replica.ask("/metrics") for _ in range(20)))
    assert set(answers) == {(200, "text 1")}


async def test_open_connections_keep_no_probe_from_being_answered(replica: Replica) -> None:
    """Given more connections than the limit, which send nothing; then the oldest are closed, and a probe passes."""
    held = [await asyncio.open_connection("127.0.0.1", replica.port) for _ in range(CONNECTIONS + 20)]
    assert await replica.ask("/healthz") == (200, "healthy")
    closed = [reader for reader, _ in held[:20]]
    for reader in closed:
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    for _, writer in held:
        writer.close()


async def test_a_connection_has_one_request(replica: Replica) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", replica.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
    with contextlib.suppress(ConnectionResetError):
        assert (await reader.read()).count(b"HTTP/1.1 200 OK") == 1
    writer.close()


async def test_a_scrape_has_the_sizes_of_the_caches(replica: Replica) -> None:
    status, text = await replica.ask("/metrics")
    assert status == 200
    assert 'tfdist_cached_objects{resource="pods"} 0.0' in text
    assert 'tfdist_cached_objects{resource="tfdistjobs"} 0.0' in text


def test_a_controller_whose_port_is_in_use_reports_it_and_ends_with_1(tmp_path: pathlib.Path) -> None:
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
