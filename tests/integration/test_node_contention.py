"""Jobs that hold nodes while they wait for more release them: without a gang scheduler, no jobs wait for ever."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.api import JOBS, Api, Json
from support.factories import manifest
from support.places import HOSTNAME, finish, node_with_places, one_place, remove_taints, scheduled
from support.polling import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("controller")]

EVENTS = "/api/v1/namespaces/{ns}/events"
TAINT = "example.com/second"


@pytest.fixture
def nodes(api: Api) -> Iterator[tuple[str, str]]:
    """Two nodes with one place each; only the newer job's pods tolerate the taint of the second."""
    with node_with_places(api, 1) as first, node_with_places(api, 1, taint=TAINT) as second:
        yield first, second


def new_job(api: Api, namespace: str, name: str, **spec: Any) -> None:
    made = manifest(name, namespace, **one_place() | spec)
    del made["metadata"]["uid"]
    api.create_job(made)


def on(node: str, **more: Any) -> Json:
    return {"template": {"spec": {"nodeSelector": {HOSTNAME: node}} | more}}


def test_of_two_jobs_that_each_hold_a_node_one_releases_it_and_both_finish(
    api: Api, namespace: str, nodes: tuple[str, str]
) -> None:
    # given two jobs that need both nodes, and have one each
    first, second = nodes
    tolerant = {"tolerations": [{"key": TAINT, "operator": "Exists"}]}
    patient = {"scheduling": {"gang": "None", "timeoutSeconds": 3600}}
    new_job(api, namespace, "older", worker={"replicas": 1, **on(second)}, chief=on(first), **patient)
    wait_for("a node of the older job", lambda: scheduled(api, namespace, "older") == 1)
    worker, chief = {"replicas": 1, **on(first)}, on(second, **tolerant)
    new_job(api, namespace, "newer", worker=worker, chief=chief, **patient)
    wait_for("a node of the newer job", lambda: scheduled(api, namespace, "newer") == 1)
    remove_taints(api, second)
    jobs = ("older", "newer")
    assert [scheduled(api, namespace, job) for job in jobs] == [1, 1]
    # when the timeout has passed
    for job in jobs:
        path = f"{JOBS.format(ns=namespace)}/{job}"
        api.do("PATCH", path, {"spec": {"scheduling": {"timeoutSeconds": 1}}}, "merge-patch")
    # then
    finish(api, namespace, jobs)
    assert "PodsReadyTimeout" in {e["reason"] for e in api.do("GET", EVENTS.format(ns=namespace))["items"]}
    for job in jobs:
        restarts = api.job(namespace, job)["status"]["restarts"]
        assert restarts["counted"] == restarts["uncounted"] == 0


@pytest.mark.long
def test_thirty_gangs_of_three_finish_on_twelve_places(api: Api, namespace: str) -> None:
    with node_with_places(api, 12):
        jobs = [f"job-{i}" for i in range(30)]
        for job in jobs:
            new_job(api, namespace, job, worker={"replicas": 3}, scheduling={"gang": "None", "timeoutSeconds": 3})
        finish(api, namespace, jobs)
