"""A node that stops answering: the gang goes on elsewhere, and waits for nobody who was on it.

It takes Kubernetes 40 s to call a node lost, and the node carries what others run; so the test is marked long.
"""

from collections.abc import Iterator

import pytest
from support.e2e import Cluster
from support.failing import WAITS, Scene, own_namespace, small_job
from support.nodes import paused, require_own_nodes

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(420)]

APART = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"tfdist.dev/job": "lost-node"}},
        }
    ],
    "terminationGracePeriodSeconds": 1,
}


@pytest.fixture
def scene(cluster: Cluster) -> Iterator[Scene]:
    require_own_nodes()
    with own_namespace(cluster, "lost-node") as scene:
        yield scene


def test_the_next_attempt_starts_on_other_nodes_while_the_old_pod_still_terminates(scene: Scene) -> None:
    scene.start(small_job("lost-node", WAITS, replicas=2, template={"spec": APART}))
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
