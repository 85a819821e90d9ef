"""Gangs of Kubernetes' own scheduler, for real: all replicas of a job get a node, or none does."""

from collections.abc import Iterator

import pytest
from support import gangs
from support.api import Api
from support.places import PLACE, node_with_places
from support.polling import wait_for

from tfdist.api.gang_system import GangSystem

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("controller")]

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/{ns}/podgroups"


@pytest.fixture
def _ten_places(api: Api) -> Iterator[None]:
    """Places for three gangs of three, and one more."""
    with node_with_places(api, gangs.PLACES):
        yield


def groups(api: Api, namespace: str) -> set[str]:
    return gangs.groups(api, GROUPS, namespace)


@pytest.mark.usefixtures("_ten_places")
def test_of_ten_gangs_of_which_three_fit_none_is_ever_scheduled_in_part(api: Api, namespace: str) -> None:
    # given
    for name in gangs.NAMES:
        gangs.submit(api, namespace, name, {"gang": "Auto"})
    # when three run, another one waits
    waits = gangs.await_first_gangs(api, namespace)
    # then the status has the scheduler and its message, which depends on how many pods it has tried to place
    assert waits["system"] == "Native"
    reasons = (f"Insufficient {PLACE}", "minCount (3) cannot be satisfied")
    assert any(reason in waits["reason"] for reason in reasons), waits["reason"]
    # and all gangs succeed, one after another
    gangs.finish_all(api, namespace)
    # and the PodGroups go with the jobs
    for name in gangs.NAMES:
        api.do("DELETE", f"/apis/tfdist.dev/v1/namespaces/{namespace}/tfdistjobs/{name}")
    wait_for("no PodGroup", lambda: not groups(api, namespace))


@pytest.mark.usefixtures("_ten_places")
def test_without_a_gang_scheduler_a_gang_is_scheduled_in_part(api: Api, namespace: str) -> None:
    """The test above can fail: ten places are taken by three gangs, and a third of another."""
    for name in gangs.NAMES:
        gangs.submit(api, namespace, name, {"gang": "None", "timeoutSeconds": 3600})
    gangs.await_partial_gang(api, namespace)
    assert groups(api, namespace) == set()


def test_a_deleted_pod_group_is_created_again(api: Api, namespace: str) -> None:
    # given a job that runs
    gangs.submit(api, namespace, "gang-0", {"gang": "Native"})
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


@pytest.mark.long
def test_a_restarted_gang_has_a_pod_group_of_its_own(api: Api, namespace: str) -> None:
    with node_with_places(api, gangs.SIZE):
        gangs.submit(api, namespace, "gang-0", {"gang": "Native"})
        gangs.restart_in_next_group(api, namespace, GROUPS, GangSystem.NATIVE)


@pytest.mark.long
def test_a_gang_that_a_more_urgent_one_preempts_waits_as_a_whole_and_starts_again_uncounted(
    api: Api, namespace: str, urgent: str
) -> None:
    with node_with_places(api, gangs.SIZE):
        gangs.check_preemption(api, namespace, gangs.submit, {"gang": "Native"}, urgent)
