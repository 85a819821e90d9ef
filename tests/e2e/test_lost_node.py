"""A node that stops answering: the gang goes on elsewhere, and waits for nobody who was on it.

It takes Kubernetes 40 s to call a node lost, and the node carries what others run; so the test is marked long.
"""

from collections.abc import Iterator

import pytest
from support.api import Json, wait_for
from support.e2e import Cluster
from support.failing import WAITS, Scene, own_namespace, small_job
from support.nodes import paused, require_own_nodes
from support.rounds import Rounds, started

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(420)]


def apart(job: str, when_unsatisfiable: str) -> Json:
    """Return what of a pod's specification spreads the replicas of a job over the nodes."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": when_unsatisfiable,
        "labelSelector": {"matchLabels": {"tfdist.dev/job": job}},
    }
    return {"topologySpreadConstraints": [constraint], "terminationGracePeriodSeconds": 1}


@pytest.fixture
def scene(cluster: Cluster) -> Iterator[Scene]:
    require_own_nodes()
    with own_namespace(cluster, "lost-node") as scene:
        yield scene


def test_the_next_attempt_starts_on_other_nodes_while_the_old_pod_still_terminates(scene: Scene) -> None:
    scene.start(small_job("lost-node", WAITS, replicas=2, template={"spec": apart("lost-node", "ScheduleAnyway")}))
    pods = scene.runs("lost-node")
    lost = pods[1]["spec"]["nodeName"]
    with paused(lost):
        status = scene.ended("lost-node", seconds=240)
        assert status["phase"] == "Succeeded"
        [cause] = scene.root_causes("lost-node")
        assert (cause["reason"], cause["counted"], cause["node"]) == ("Disruption", False, lost)
        assert scene.printed("lost-node")["RESTARTS"] == "1"
        scene.tells("lost-node", "Reason: Disruption", f"node {lost}", "Warning Restarting")
        later = [p for p in scene.cluster.pods("lost-node") if p["metadata"]["name"].endswith("-r1")]
        assert lost not in {p["spec"]["nodeName"] for p in later}


@pytest.fixture
def gang(cluster: Cluster) -> Iterator[Rounds]:
    """Two workers under launchers, on two nodes."""
    require_own_nodes()
    with started(cluster, "paused", template={"spec": apart("paused", "ScheduleAnyway")}) as gang:
        yield gang


def test_a_node_that_stands_still_for_a_while_costs_no_pod_under_launchers(gang: Rounds) -> None:
    pods = gang.pods()
    with paused(pods["worker-1"]["spec"]["nodeName"]):
        # What is on the node may be the controller, or the pod that tells the time: only worker 0 is asked.
        waits = 'waiting message="worker-1: its launcher has not called'
        wait_for("worker-0 to wait", lambda: waits in gang.log("worker-0"), seconds=60)
    wait_for("steps after the pause", lambda: " train step=" in gang.log("worker-0").rpartition(waits)[2], seconds=120)
    assert gang.uids() == {replica: pod["metadata"]["uid"] for replica, pod in pods.items()}
    gang.each_example_once()


def test_under_launchers_the_replica_of_a_lost_node_is_replaced_alone(gang: Rounds) -> None:
    pods, lost = gang.pods(), gang.pods()["worker-1"]["spec"]["nodeName"]
    with paused(lost):
        wait_for(
            "a new pod of worker-1 on another node",
            lambda: gang.pods()["worker-1"]["spec"].get("nodeName") not in {lost, None},
            seconds=200,
        )
        wait_for(
            "steps in the next round", lambda: " train step=" in gang.log("worker-0").rpartition(" round ")[2], 120
        )
    assert gang.uids()["worker-0"] == pods["worker-0"]["metadata"]["uid"]
    gang.each_example_once()
