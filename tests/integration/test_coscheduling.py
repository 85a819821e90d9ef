"""Gangs of scheduler-plugins, for real: all replicas of a job get a node, or none does."""

from functools import partial

import pytest
from support import gangs
from support.api import Api, Json
from support.places import finish, node_with_places, pods_of, scheduled
from support.polling import wait_for
from support.schedulers import coscheduling

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.usefixtures("coscheduling", "controller")]

GANG: Json = {"gang": "Coscheduling", "timeoutSeconds": 60}

submit = partial(gangs.submit, scheduler=coscheduling.NAME)


def test_of_ten_gangs_of_which_three_fit_none_is_scheduled_in_part(api: Api, namespace: str) -> None:
    with node_with_places(api, gangs.PLACES):
        # given
        for name in gangs.NAMES:
            submit(api, namespace, name, GANG)
        # when three run, another one waits
        waits = gangs.await_first_gangs(api, namespace)
        # then its status has the message of the scheduler
        assert waits["system"] == "Coscheduling"
        assert "queue" not in waits
        # and all succeed, one after another: the end of a pod makes the scheduler consider the others again
        gangs.finish_all(api, namespace)
    # and no PodGroup is left
    wait_for("no PodGroup", lambda: not gangs.groups(api, coscheduling.GROUPS, namespace))


def test_without_its_pod_group_the_scheduler_schedules_a_gang_in_part(api: Api, namespace: str) -> None:
    """The test above can fail: ten places are taken by parts of gangs."""
    with node_with_places(api, gangs.PLACES):
        for name in gangs.NAMES:
            submit(api, namespace, name, {"gang": "None", "timeoutSeconds": 3600})
        wait_for("ten replicas", lambda: sum(scheduled(api, namespace, name) for name in gangs.NAMES) == gangs.PLACES)
        assert any(0 < scheduled(api, namespace, name) < gangs.SIZE for name in gangs.NAMES)


def test_a_restarted_gang_gets_its_nodes_again_as_a_gang(api: Api, namespace: str) -> None:
    with node_with_places(api, gangs.SIZE):
        # given
        submit(api, namespace, "gang-0", GANG)
        gangs.await_running(api, namespace, "gang-0")
        assert gangs.groups(api, coscheduling.GROUPS, namespace) == {"gang-0-training"}
        # when a replica fails
        gangs.fail_replica(api, namespace, "gang-0")
        # then
        wait_for("the next attempt", lambda: api.job(namespace, "gang-0")["status"]["attempt"] == 1)
        gangs.await_running(api, namespace, "gang-0")
        group = {pod["metadata"]["labels"][coscheduling.LABEL] for pod in pods_of(api, namespace, "gang-0")}
        assert "gang-0-training-r1" in group
        wait_for(
            "the first PodGroup to be removed",
            lambda: gangs.groups(api, coscheduling.GROUPS, namespace) == {"gang-0-training-r1"},
        )


def test_a_gang_that_a_more_urgent_one_preempts_waits_as_a_whole_and_starts_again_uncounted(
    api: Api, namespace: str, urgent: str
) -> None:
    with node_with_places(api, gangs.SIZE):
        # given
        submit(api, namespace, "gang-0", GANG)
        gangs.await_running(api, namespace, "gang-0")
        # when a gang of two arrives
        submit(api, namespace, "gang-1", GANG | {"priorityClassName": urgent}, replicas=2)
        # then no replica of the other keeps the third place
        gangs.await_running(api, namespace, "gang-1")
        wait_for("no replica of the other has a node", lambda: scheduled(api, namespace, "gang-0") == 0)
        # when it has ended
        finish(api, namespace, ["gang-1"])
        # then
        gangs.await_running(api, namespace, "gang-0")
        restarts = api.job(namespace, "gang-0")["status"]["restarts"]
        assert (restarts["counted"], restarts["uncounted"]) == (0, 1)
