"""Jobs that hold nodes while they wait for more release them: without a gang scheduler, no jobs wait for ever."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from support.api import JOBS, Api, Json
from support.factories import manifest
from support.history import Change, recorded
from support.places import HOSTNAME, finish, node_with_places, one_place, phase, pods_of, remove_taints, scheduled
from support.polling import wait_for

from tfdist.observed.pod import summarize
from tfdist.timestamps import parse_time

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("controller")]

EVENTS = "/api/v1/namespaces/{ns}/events"
TAINT = "example.com/second"
ALL_PODS = "/api/v1/pods"
TIMEOUT_SECONDS = 5


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


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("gang", ["Native", "None"])
def test_no_gang_is_released_after_all_of_its_pods_were_scheduled_however_long_it_has_waited(
    api: Api, namespace: str, gang: str
) -> None:
    # given ten gangs of two, and places for one
    jobs = [f"job-{i}" for i in range(10)]
    with node_with_places(api, 2), recorded(api, [ALL_PODS]) as changes:
        for job in jobs:
            scheduling = {"gang": gang, "timeoutSeconds": TIMEOUT_SECONDS}
            new_job(api, namespace, job, worker={"replicas": 2}, scheduling=scheduling)
        # when each runs for longer than the timeout
        wait_for("all to succeed", lambda: succeed_in_turn(api, namespace, jobs), seconds=1100, every_seconds=0.5)
    # then
    whole, deleted = whole_gangs([change for change in changes if change.namespace == namespace])
    assert {job for job, _ in whole} == {*jobs}
    assert deleted == []


def succeed_in_turn(api: Api, namespace: str, jobs: Sequence[str]) -> bool:
    """End the gangs that have run for longer than the timeout; return whether all have succeeded."""
    phases = {job: phase(api, namespace, job) for job in jobs}
    for job in (job for job, current in phases.items() if current == "Running"):
        pods = pods_of(api, namespace, job)
        starts = [parse_time(summarize(pod).scheduled_at) for pod in pods]
        if all((datetime.now(UTC) - start).total_seconds() > TIMEOUT_SECONDS + 1 for start in starts):
            for pod in reversed(pods):  # the leader last: when it has succeeded, the others are deleted
                api.end_container(namespace, pod["metadata"]["name"], 0)
    return set(phases.values()) == {"Succeeded"}


def whole_gangs(changes: Sequence[Change]) -> tuple[set[tuple[str, int]], list[str]]:
    """Return the attempts, by job, in which both pods had a node at once, and those of their pods that were deleted."""
    pods: dict[tuple[str, int], dict[str, Json]] = {}
    whole, deleted = set(), []
    for pod in (change.object for change in changes):
        attempt = pod["metadata"]["labels"]["tfdist.dev/job"], summarize(pod).attempt
        members = pods.setdefault(attempt, {})
        members[pod["metadata"]["name"]] = pod
        lives = [not is_deleted(each) and each["spec"].get("nodeName") for each in members.values()]
        if len(lives) == 2 and all(lives):
            whole.add(attempt)
        elif attempt in whole and is_deleted(pod) and pod["status"]["phase"] == "Running":
            deleted.append(pod["metadata"]["name"])
    return whole, deleted


def is_deleted(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]
