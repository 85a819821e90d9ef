"""Gangs of Kubernetes' own scheduler, for real: all replicas of a job get a node, or none does."""

import uuid
from collections.abc import Iterator
from functools import partial

import pytest
from support.api import Api, Json
from support.factories import manifest
from support.places import PLACE, finish, node_with_places, one_place, phase, pods_of, scheduled
from support.polling import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("controller")]

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/{ns}/podgroups"
GANGS = [f"gang-{i}" for i in range(10)]
SIZE = 3


@pytest.fixture
def _ten_places(api: Api) -> Iterator[None]:
    """Places for three gangs of three, and one more."""
    with node_with_places(api, 10):
        yield


@pytest.fixture
def urgent(api: Api) -> Iterator[str]:
    """A PriorityClass above the default."""
    name = f"urgent-{uuid.uuid4().hex[:8]}"
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    api.do("POST", CLASSES, kind | {"metadata": {"name": name}})
    yield name
    api.do("DELETE", f"{CLASSES}/{name}")


def submit(api: Api, namespace: str, name: str, scheduling: Json, replicas: int = SIZE) -> None:
    made = manifest(name, namespace, worker={"replicas": replicas}, scheduling=scheduling, **one_place())
    del made["metadata"]["uid"]
    api.create_job(made)


def check_all_or_none(api: Api, namespace: str) -> None:
    """Check that each gang has nodes for all replicas, or for none; binding takes a moment."""
    for name in GANGS:
        wait_for(f"all nodes of {name}, or none", partial(_has_all_or_none, api, namespace, name))


def _has_all_or_none(api: Api, namespace: str, name: str) -> bool:
    return scheduled(api, namespace, name) in {0, SIZE}


def groups(api: Api, namespace: str) -> set[str]:
    return {group["metadata"]["name"] for group in api.do("GET", GROUPS.format(ns=namespace))["items"]}


@pytest.mark.usefixtures("_ten_places")
def test_of_ten_gangs_of_which_three_fit_none_is_ever_scheduled_in_part(api: Api, namespace: str) -> None:
    # given
    for name in GANGS:
        submit(api, namespace, name, {"gang": "Auto"})
    # when three run, another one waits
    wait_for("three gangs", lambda: [phase(api, namespace, name) for name in GANGS].count("Running") == 3)
    waiting = next(name for name in GANGS if phase(api, namespace, name) != "Running")
    # then the status has the scheduler and its message
    wait_for("the message of the scheduler", lambda: "reason" in api.job(namespace, waiting)["status"]["scheduling"])
    status = api.job(namespace, waiting)["status"]["scheduling"]
    assert status["system"] == "Native"
    assert f"Insufficient {PLACE}" in status["reason"]
    # and all gangs succeed, one after another
    finish(api, namespace, GANGS, check=lambda: check_all_or_none(api, namespace))
    # and the PodGroups go with the jobs
    for name in GANGS:
        api.do("DELETE", f"/apis/tfdist.dev/v1/namespaces/{namespace}/tfdistjobs/{name}")
    wait_for("no PodGroup", lambda: not groups(api, namespace))


@pytest.mark.usefixtures("_ten_places")
def test_without_a_gang_scheduler_a_gang_is_scheduled_in_part(api: Api, namespace: str) -> None:
    """The test above can fail: ten places are taken by three gangs, and a third of another."""
    for name in GANGS:
        submit(api, namespace, name, {"gang": "None", "timeoutSeconds": 3600})
    wait_for("ten replicas", lambda: sum(scheduled(api, namespace, name) for name in GANGS) == 10)
    assert any(0 < scheduled(api, namespace, name) < SIZE for name in GANGS)
    assert groups(api, namespace) == set()


def test_a_deleted_pod_group_is_created_again(api: Api, namespace: str) -> None:
    # given a job that runs
    submit(api, namespace, "gang-0", {"gang": "Native"})
    wait_for("the PodGroup", lambda: groups(api, namespace) == {"gang-0-training"})
    # when
    path = f"{GROUPS.format(ns=namespace)}/gang-0-training"
    before = api.do("GET", path)["metadata"]["uid"]
    api.do("PATCH", path, {"metadata": {"finalizers": None}}, "merge-patch")
    api.send("DELETE", path)
    api.send("PATCH", path, {"metadata": {"finalizers": None}}, "merge-patch")

    # then
    def created_again() -> bool:
        found = api.send("GET", path)
        return found.ok and found.json()["metadata"]["uid"] != before

    wait_for("another PodGroup", created_again)


def test_a_restarted_gang_has_a_pod_group_of_its_own(api: Api, namespace: str) -> None:
    # given
    with node_with_places(api, SIZE):
        submit(api, namespace, "gang-0", {"gang": "Native"})
        wait_for("the job runs", lambda: phase(api, namespace, "gang-0") == "Running")
        # when a replica fails
        api.end_container(namespace, pods_of(api, namespace, "gang-0")[0]["metadata"]["name"], 137)
        # then all are scheduled again as a gang
        wait_for("the next PodGroup", lambda: "gang-0-training-r1" in groups(api, namespace))
        wait_for("the next attempt", lambda: api.job(namespace, "gang-0")["status"]["attempt"] == 1)
        wait_for("the job runs again", lambda: phase(api, namespace, "gang-0") == "Running")
        wait_for("the first PodGroup is removed", lambda: groups(api, namespace) == {"gang-0-training-r1"})


def test_a_gang_that_a_more_urgent_one_preempts_waits_as_a_whole_and_starts_again_uncounted(
    api: Api, namespace: str, urgent: str
) -> None:
    with node_with_places(api, SIZE):
        # given
        submit(api, namespace, "gang-0", {"gang": "Native"})
        wait_for("the gang runs", lambda: phase(api, namespace, "gang-0") == "Running")
        # when a gang of two arrives
        submit(api, namespace, "gang-1", {"gang": "Native", "priorityClassName": urgent}, replicas=2)
        # then no replica of the other keeps the third place
        wait_for("the urgent gang runs", lambda: phase(api, namespace, "gang-1") == "Running")
        wait_for("no replica of the other has a node", lambda: scheduled(api, namespace, "gang-0") == 0)
        # when it has ended
        finish(api, namespace, ["gang-1"])
        # then
        wait_for("the gang runs again", lambda: phase(api, namespace, "gang-0") == "Running")
        restarts = api.job(namespace, "gang-0")["status"]["restarts"]
        assert (restarts["counted"], restarts["uncounted"]) == (0, 1)
