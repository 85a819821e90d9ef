"""PodGroups of Volcano and of scheduler-plugins at a real API server: their life from a job's start to its end.

The schedulers themselves do not run here: the test gives the pods their nodes.
"""

import pathlib
from collections.abc import Iterator
from functools import partial

import pytest
from support.api import PODS, Api, Json
from support.controller import Controller
from support.controller import controller as run_controller
from support.factories import manifest
from support.gang_schedulers import served
from support.owned_model import group_of
from support.places import node_with_places, phase, pods_of
from support.polling import wait_for

from tfdist.api.gang_system import GangSystem
from tfdist.desired.owned_kinds import POD_GROUPS

pytestmark = pytest.mark.integration

SPECS = {
    GangSystem.VOLCANO: {"minMember": 2, "queue": "team-a"},
    GangSystem.COSCHEDULING: {"minMember": 2, "scheduleTimeoutSeconds": 60},
    GangSystem.KAI: {"minMember": 2, "queue": "team-a"},
}
SCHEDULING = {
    GangSystem.VOLCANO: {"queue": "team-a"},
    GangSystem.COSCHEDULING: {"gang": "Coscheduling", "timeoutSeconds": 60},
    GangSystem.KAI: {"gang": "KAI", "queue": "team-a"},
}


@pytest.fixture(params=SPECS, ids=str)
def system(api: Api, request: pytest.FixtureRequest) -> Iterator[GangSystem]:
    with served(api, POD_GROUPS[request.param]):
        yield request.param


@pytest.fixture
def running(api: Api, namespace: str, system: GangSystem, tmp_path: pathlib.Path) -> Iterator[Controller]:
    """A controller that starts while the kind is served; in namespaces of earlier tests, which end, requests fail."""
    assert system
    with run_controller(api, tmp_path, TFDIST_NAMESPACE=namespace) as started:
        yield started


def groups(api: Api, namespace: str, system: GangSystem) -> list[Json]:
    kind = POD_GROUPS[system]
    found: list[Json] = api.do("GET", f"/{kind.path}/namespaces/{namespace}/{kind.plural}")["items"]
    return found


def names(api: Api, namespace: str, system: GangSystem) -> set[str]:
    return {group["metadata"]["name"] for group in groups(api, namespace, system)}


def bind(api: Api, namespace: str, node: str) -> None:
    """Give each pod of the job a node, as its scheduler would."""
    for pod in pods_of(api, namespace, "gang"):
        name = pod["metadata"]["name"]
        if not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            api.do(
                "POST", f"{PODS.format(ns=namespace)}/{name}/binding", {"metadata": {"name": name}, "target": target}
            )


def test_a_gang_lives_in_the_pod_groups_of_its_scheduler(
    api: Api, namespace: str, system: GangSystem, running: Controller
) -> None:
    # given
    made = manifest("gang", namespace, scheduling=SCHEDULING[system])
    del made["metadata"]["uid"]
    api.create_job(made)
    # when it starts, its pods name its PodGroup
    wait_for("two pods", lambda: len(pods_of(api, namespace, "gang")) == 2)
    (group,) = groups(api, namespace, system)
    assert group["spec"] == SPECS[system]
    assert [owner["kind"] for owner in group["metadata"]["ownerReferences"]] == ["TFDistJob"]
    assert {group_of(pod, system) for pod in pods_of(api, namespace, "gang")} == {"gang-training"}
    with node_with_places(api, 2) as node:
        bind(api, namespace, node)
        wait_for("the job runs", lambda: phase(api, namespace, "gang") == "Running")
        assert api.job(namespace, "gang")["status"]["scheduling"]["system"] == str(system)
        # when a replica fails, the next attempt has a PodGroup of its own
        api.end_container(namespace, "gang-worker-1", 137)
        wait_for("the next attempt", partial(_in_group, api, namespace, system, "gang-training-r1"))
        bind(api, namespace, node)
        wait_for("the first one is removed", lambda: names(api, namespace, system) == {"gang-training-r1"})
        # when the job ends
        wait_for("the job runs again", lambda: phase(api, namespace, "gang") == "Running")
        for index in (0, 1):
            api.end_container(namespace, f"gang-worker-{index}-r1", 0)
        # then nothing is left, and no request was rejected
        wait_for("no PodGroup", lambda: not groups(api, namespace, system))
    assert not {request for request in running.api_requests() if request[2] in {"401", "403"}}


def _in_group(api: Api, namespace: str, system: GangSystem, name: str) -> bool:
    """Return whether two pods belong to a PodGroup; the failed pod of the attempt before keeps its own."""
    return [group_of(pod, system) for pod in pods_of(api, namespace, "gang")].count(name) == 2


@pytest.mark.parametrize(
    ("gang", "queue", "accepted"),
    [("Volcano", "a", True), ("Auto", "a", True), ("None", "a", False), ("Native", "a", False), ("None", None, True)],
)
def test_the_api_server_rejects_a_queue_that_no_scheduler_would_read(
    api: Api, namespace: str, gang: str, queue: str | None, accepted: bool
) -> None:
    scheduling = {"gang": gang} | ({"queue": queue} if queue else {})
    path = f"/apis/tfdist.dev/v1/namespaces/{namespace}/tfdistjobs"
    answer = api.send("POST", path, manifest("queued", namespace, scheduling=scheduling), dryRun="All")
    assert answer.ok is accepted
    assert accepted or "queue requires scheduling.gang Kueue, Volcano or KAI" in answer.json()["message"]
