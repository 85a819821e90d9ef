"""Gangs of Volcano, for real: all replicas of a job get a node, or none does.

Its default configuration preempts nothing: `preempt` is not among its actions.
"""

from collections.abc import Iterator

import pytest
from support import gangs
from support.api import Api
from support.places import node_with_places, pods_of, scheduled
from support.polling import wait_for
from support.schedulers import crds, volcano

from tfdist.api.gang_system import GangSystem

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.usefixtures("volcano", "controller")]

DEFINITION = f"{crds.CRDS}/podgroups.scheduling.volcano.sh"


@pytest.fixture
def queue(api: Api, namespace: str) -> Iterator[str]:
    """A queue of the test's own."""
    path = f"{volcano.QUEUES}/{namespace}"
    made = {"apiVersion": volcano.API_VERSION, "kind": "Queue", "metadata": {"name": namespace}, "spec": {"weight": 1}}
    api.do("POST", volcano.QUEUES, made)
    wait_for("the queue to be open", lambda: api.do("GET", path).get("status", {}).get("state") == "Open")
    yield namespace
    api.do("DELETE", path)


def test_of_ten_gangs_of_which_three_fit_none_is_scheduled_in_part(api: Api, namespace: str, queue: str) -> None:
    with node_with_places(api, gangs.PLACES):
        # given
        for name in gangs.NAMES:
            gangs.submit(api, namespace, name, {"gang": "Volcano", "queue": queue})
        # when three run, another one waits
        waits = gangs.await_first_gangs(api, namespace)
        # then its status has the queue and the message of Volcano
        assert (waits["system"], waits["queue"]) == ("Volcano", queue)
        assert "3 Pending, 3 minAvailable" in waits["reason"]
        # and all succeed, one after another
        gangs.finish_all(api, namespace)
    # and no PodGroup is left
    wait_for("no PodGroup", lambda: not gangs.groups(api, volcano.GROUPS, namespace))


def test_without_its_pod_group_volcano_schedules_a_gang_in_part(api: Api, namespace: str) -> None:
    """The test above can fail: ten places are taken by parts of gangs."""
    with node_with_places(api, gangs.PLACES):
        for name in gangs.NAMES:
            scheduling = {"gang": "None", "timeoutSeconds": 3600}
            gangs.submit(api, namespace, name, scheduling, scheduler=volcano.NAME)
        gangs.await_partial_gang(api, namespace)


def test_a_restarted_gang_gets_its_nodes_again_as_a_gang(api: Api, namespace: str) -> None:
    with node_with_places(api, gangs.SIZE):
        gangs.submit(api, namespace, "gang-0", {"gang": "Volcano"})
        gangs.restart_in_next_group(api, namespace, volcano.GROUPS, GangSystem.VOLCANO)


def test_jobs_wait_while_pod_groups_are_not_served_and_go_on_when_they_are_again(api: Api, namespace: str) -> None:
    # given a gang that waits for nodes
    gangs.submit(api, namespace, "gang-0", {"gang": "Volcano"})
    wait_for("its pods", lambda: len(pods_of(api, namespace, "gang-0")) == gangs.SIZE)
    # when the definition is deleted, with all PodGroups
    definition = api.do("GET", DEFINITION)
    api.do("DELETE", DEFINITION)
    try:
        # then a gang that has not started waits for it
        gangs.submit(api, namespace, "gang-1", {"gang": "Volcano"})
        wait_for("the reason", lambda: _reason(api, namespace, "gang-1") == "GangSchedulerMissing")
        assert not pods_of(api, namespace, "gang-1")
        assert scheduled(api, namespace, "gang-0") == 0
    finally:
        wait_for("the end of the definition", lambda: api.send("GET", DEFINITION).status_code == 404)
        kept = {key: value for key, value in definition["metadata"].items() if key in {"name", "annotations"}}
        api.do("POST", crds.CRDS, {**definition, "metadata": kept, "status": None})
    # when it is back, and there are nodes
    with node_with_places(api, 2 * gangs.SIZE):
        # then both run
        for name in ("gang-0", "gang-1"):
            gangs.await_running(api, namespace, name)
        assert gangs.groups(api, volcano.GROUPS, namespace) == {"gang-0-training", "gang-1-training"}


def _reason(api: Api, namespace: str, name: str) -> str:
    conditions = api.job(namespace, name).get("status", {}).get("conditions", ())
    return next((str(each["reason"]) for each in conditions if each["type"] == "PodsReady"), "")
