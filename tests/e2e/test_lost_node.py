"""A node that stops answering: the gang continues on other nodes, and waits for no replica of that node.

It takes Kubernetes 40 s to call a node lost, and the node carries what others run; so the test is marked long.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest
from support.api import Json
from support.e2e import Cluster
from support.failing_jobs import WAITS, JobNamespace, own_namespace, small_job
from support.nodes import cut, paused, require_own_nodes
from support.polling import wait_for
from support.rounds import Rounds, started

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(420)]

STOPS: Final = "makes a node stand still, and with it what others run there"
"""Why it is for the kind cluster of this repository."""
SPREAD: Final = {
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
def jobs(cluster: Cluster) -> Iterator[JobNamespace]:
    require_own_nodes(STOPS)
    with own_namespace(cluster, "lost-node") as jobs:
        yield jobs


def test_the_next_attempt_starts_on_other_nodes_while_the_old_pod_still_terminates(jobs: JobNamespace) -> None:
    jobs.start(small_job("lost-node", WAITS, replicas=2, template={"spec": SPREAD}))
    pods = jobs.runs("lost-node")
    nodes, controllers = [pod["spec"]["nodeName"] for pod in pods], _nodes_of_controllers(jobs.cluster)
    lost = next((node for node in nodes if node not in controllers), nodes[1])
    with paused(lost):
        status = jobs.ended("lost-node", seconds=240)
        assert status["phase"] == "Succeeded"
        [cause] = jobs.root_causes("lost-node")
        assert (cause["reason"], cause["counted"], cause["node"]) == ("Disruption", False, lost)
        assert jobs.printed("lost-node")["RESTARTS"] == "1"
        jobs.await_description("lost-node", "Reason: Disruption", f"node {lost}", "Warning Restarting")
        later = [p for p in jobs.cluster.pods("lost-node") if p["metadata"]["name"].endswith("-r1")]
        assert lost not in {p["spec"]["nodeName"] for p in later}


@dataclass(frozen=True, slots=True)
class SeparatedGang:
    """A chief and a worker under launchers, and the node of the worker, where no controller is if that can be."""

    rounds: Rounds
    node: str
    pods: dict[str, Json]

    def go_on(self, after: str) -> None:
        """Wait until the chief's log has a step after some text."""
        wait_for(f"steps after {after!r}", lambda: " train step=" in self.log.rpartition(after)[2])

    @property
    def log(self) -> str:
        """Of the chief, which can be asked whatever happens to the other node."""
        return self.rounds.log("chief-0")


@pytest.fixture
def separated_gang(cluster: Cluster) -> Iterator[SeparatedGang]:
    require_own_nodes(STOPS)
    wait_for("every node to be back", lambda: _all_usable(cluster))
    workers = [name for name in _names(cluster.kubectl.get("nodes")) if not name.endswith("control-plane")]
    near = _nodes_of_controllers(cluster)[0]
    far = next(name for name in workers if name != near)
    roles = {"chief": {"template": _prefers(near)}, "worker": {"replicas": 1, "template": _prefers(far)}}
    no_restart = {"backoffLimit": 0}
    with started(cluster, "apart", leader="chief-0", runPolicy=no_restart, **roles) as gang:
        pods = gang.pods()
        assert [pods[name]["spec"]["nodeName"] for name in ("chief-0", "worker-0")] == [near, far]
        yield SeparatedGang(gang, far, pods)


def _nodes_of_controllers(cluster: Cluster) -> list[str]:
    pods = cluster.kubectl.pods(cluster.kubectl.place.system, cluster.kubectl.place.selector)
    return [pod["spec"]["nodeName"] for pod in pods]


def _all_usable(cluster: Cluster) -> bool:
    """Return whether no node is called lost any more: the control plane's own mark is another."""
    nodes = (cluster.kubectl.get("nodes") or {})["items"]
    marks = {taint["key"] for node in nodes for taint in node["spec"].get("taints", ())}
    return not marks & {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


def _names(listed: Json | None) -> list[str]:
    return [item["metadata"]["name"] for item in (listed or {})["items"]]


def _prefers(node: str) -> Json:
    """Return a pod's template that is scheduled on a node as long as it can be."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    preferred = [{"weight": 100, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return {"spec": {"affinity": affinity, "terminationGracePeriodSeconds": 1}}


def test_a_node_that_stands_still_for_a_while_costs_no_pod_under_launchers(separated_gang: SeparatedGang) -> None:
    waits = "worker-0: its launcher is not connected"
    with paused(separated_gang.node):
        wait_for("the chief to wait", lambda: waits in separated_gang.log)
    separated_gang.go_on(waits)
    assert separated_gang.rounds.uids() == {
        replica: pod["metadata"]["uid"] for replica, pod in separated_gang.pods.items()
    }
    separated_gang.rounds.each_example_once()


def test_under_launchers_the_replica_of_a_lost_node_is_replaced_alone(separated_gang: SeparatedGang) -> None:
    def moved() -> bool:
        return separated_gang.rounds.pods()["worker-0"]["spec"].get("nodeName") not in {separated_gang.node, None}

    with paused(separated_gang.node):
        wait_for("a new pod of worker-0 on another node", moved, seconds=240)
        separated_gang.go_on(" round number=")
    assert separated_gang.rounds.uids()["chief-0"] == separated_gang.pods["chief-0"]["metadata"]["uid"]
    separated_gang.rounds.each_example_once()


@pytest.mark.parametrize("seconds", [15, 90])
def test_a_node_that_stands_still_counts_nothing_and_no_healthy_replica_is_blamed(
    separated_gang: SeparatedGang, seconds: int
) -> None:
    with paused(separated_gang.node):
        _pass(seconds)
    _goes_on_uncounted(separated_gang)


def test_a_network_that_is_cut_between_two_pods_counts_nothing(separated_gang: SeparatedGang) -> None:
    with cut(separated_gang.pods["chief-0"], separated_gang.pods["worker-0"]):
        _pass(30)
    _goes_on_uncounted(separated_gang)
    assert separated_gang.rounds.uids() == {
        replica: pod["metadata"]["uid"] for replica, pod in separated_gang.pods.items()
    }


def _pass(seconds: float) -> None:
    """Return after so many seconds: how long the fault lasts is what is tested."""
    end = time.monotonic() + seconds
    wait_for(f"{seconds} s to pass", lambda: time.monotonic() >= end, seconds=seconds + 30)


def _goes_on_uncounted(separated_gang: SeparatedGang) -> None:
    """Wait until the gang, which has no restart left, trains again; see that only the silent one is blamed."""
    separated_gang.rounds.steps_after(separated_gang.rounds.now(), saved=True)
    status = separated_gang.rounds.cluster.job(separated_gang.rounds.name)["status"]
    assert (status["phase"], status["restarts"]["counted"]) == ("Running", 0), separated_gang.rounds.described()
    causes = separated_gang.rounds.jobs.root_causes(separated_gang.rounds.name)
    # A cause that names two replicas blames none: without processor time their processes lose each other.
    blamed = [cause for cause in causes if "lost the connection to each other" not in cause["message"]]
    assert not any(cause["counted"] for cause in causes), causes
    assert {(c["role"], c["reason"], c["counted"]) for c in blamed} <= {
        ("worker", "Disruption", False),
        ("worker", "Preempted", False),
    }, causes
    separated_gang.rounds.each_example_once()
