"""Gangs of scheduler-plugins, for real: all replicas of a job get a node, or none does."""

from functools import partial

import pytest
from support import gangs
from support.api import Api, Json
from support.places import node_with_places
from support.polling import wait_for
from support.schedulers import coscheduling

from tfdist.api.gang_system import GangSystem

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
        gangs.await_partial_gang(api, namespace)


def test_a_restarted_gang_gets_its_nodes_again_as_a_gang(api: Api, namespace: str) -> None:
    with node_with_places(api, gangs.SIZE):
        submit(api, namespace, "gang-0", GANG)
        gangs.restart_in_next_group(api, namespace, coscheduling.GROUPS, GangSystem.COSCHEDULING)


def test_a_gang_that_a_more_urgent_one_preempts_waits_as_a_whole_and_starts_again_uncounted(
    api: Api, namespace: str, urgent: str
) -> None:
    with node_with_places(api, gangs.SIZE):
        gangs.check_preemption(api, namespace, submit, GANG, urgent)
