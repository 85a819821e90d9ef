"""The Secret of the launchers: its requests, what the API server shows of it, and its stand-in of a local run."""

import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.bench import JOB, Bench, bench_served, rejecting_pods
from support.factories import UID, condition, manifest

from tfdist.contract import LAUNCH_KEY_ENV
from tfdist.local.job import LocalJob, Machine
from tfdist.local.volumes import Sources
from tfdist.render.gang import training_gang
from tfdist.render.installation import Installation
from tfdist.render.pod import Attempt, PodRenderer
from tfdist.validation import parse
from tfdist_launch.settings import read_settings

KEY = "0a" * 32
SECRET = f"/api/v1/namespaces/team/secrets/fashion-launcher-{UID}"


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_served() as made:
        yield made


async def test_the_secret_is_created_once_and_before_the_pods(bench: Bench) -> None:
    bench.job()
    await bench.reconcile()
    bench.run("worker-0", "worker-1")
    await bench.reconcile()
    posts = [path.rpartition("/")[2] for method, path, _ in bench.api.bodies if method == "POST"]
    assert [kind for kind in posts if kind in {"secrets", "pods"}] == ["secrets", "pods", "pods"]


async def test_a_controller_that_takes_over_leaves_the_secret_as_it_is(bench: Bench) -> None:
    """Given a controller killed after the Secret, when the next one creates the pods, then the first key remains."""
    bench.job()
    bench.api.reject = rejecting_pods("exceeded quota")
    assert not await bench.reconcile()
    stored = bench.api.objects[SECRET]
    bench.api.reject = lambda _method, _path: None
    bench.start()
    assert await bench.reconcile()
    assert bench.api.objects[SECRET] == stored
    assert bench.api.requests("secrets") == ["POST", "POST"], "a Secret is neither read nor changed"
    assert len([path for path in bench.api.objects if "/pods/" in path]) == 2


async def test_no_pod_is_created_while_the_secret_is_rejected_and_the_job_reports_it(bench: Bench) -> None:
    bench.job()
    quota = (403, "Forbidden", 'secrets "fashion-launcher" is forbidden: exceeded quota: small', "")
    bench.api.reject = lambda _method, path: quota if path.endswith("/secrets") else None
    assert not await bench.reconcile()
    await bench.reconcile()
    assert bench.api.requests("pods") == []
    ready = condition(bench.api.objects[JOB]["status"], "PodsReady")
    assert (ready["reason"], "exceeded quota: small" in ready["message"]) == ("FailedCreate", True)


async def test_every_secret_has_a_key_of_its_own_that_no_other_object_has(bench: Bench) -> None:
    keys = set()
    for _ in range(2):
        bench.api.objects.clear()
        bench.job()
        bench.start()
        await bench.reconcile()
        keys.add(key := bench.api.objects[SECRET]["stringData"]["key"])
        assert len(key) == 64
        assert key not in repr([content for path, content in bench.api.objects.items() if path != SECRET])
    assert len(keys) == 2


def test_launchers_of_a_local_run_get_the_key_that_pods_get_from_the_secret() -> None:
    """Given pods that refer to the Secret, when they become processes, then their launchers derive one token."""
    document = manifest(command=["train"])
    del document["spec"]["training"]
    ports = itertools.count(40001)
    machine = Machine("box", {}, launcher=True, launcher_key=KEY)
    local = LocalJob(parse(document), Sources(Path("/state"), {}, {}), machine, lambda: next(ports))
    gang = training_gang(local.job)
    renderer = PodRenderer(local.job, gang, Installation("bundled"))
    pods = [renderer.pod(member, Attempt(0, 0)) for member in gang.members]
    assert KEY not in json.dumps(pods)
    environments = [dict(local.process(each).environment) for each in pods]
    assert [each[LAUNCH_KEY_ENV] for each in environments] == [KEY, KEY]
    assert len({read_settings(each, KEY).token for each in environments}) == 1
