"""Nodes whose CPU is full: the controllers keep their Lease while thirty jobs start, and a new one leads soon."""

import time
from collections.abc import Iterator

import pytest
from support.api import Json
from support.e2e import Cluster
from support.failing_jobs import ENDS, JobNamespace, own_namespace, small_job
from support.polling import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(900)]

SPINS = "while True: pass"
SPINNING = 14
STARTED = 30


@pytest.fixture
def jobs(cluster: Cluster) -> Iterator[JobNamespace]:
    with own_namespace(cluster, "overload") as jobs:
        yield jobs


def controllers(cluster: Cluster) -> list[Json]:
    place = cluster.kubectl.place
    return cluster.kubectl.pods(place.system, place.selector)


def restarts(cluster: Cluster) -> int:
    """Return how often the kubelet has restarted a controller that is there now."""
    return sum(each["restartCount"] for pod in controllers(cluster) for each in pod["status"]["containerStatuses"])


def lease(cluster: Cluster) -> Json:
    found = cluster.kubectl.get("lease", "tfdist-controller", f"--namespace={cluster.kubectl.place.system}")
    assert found is not None
    spec: Json = found["spec"]
    return spec


def test_thirty_jobs_on_full_nodes_cost_no_leader_and_a_new_controller_leads(jobs: JobNamespace) -> None:
    cluster = jobs.cluster
    # given pods that use all the CPU of the nodes
    requests = {"resources": {"requests": {"cpu": "200m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}}}
    jobs.start(small_job("spins", SPINS, replicas=SPINNING, **requests))
    jobs.runs("spins", seconds=300)
    before, restarted = lease(cluster), restarts(cluster)
    # when thirty jobs start at once
    began = time.monotonic()
    jobs.start(*(small_job(f"short-{n}", ENDS, "0") for n in range(STARTED)))
    for number in range(STARTED):
        assert jobs.ended(f"short-{number}", seconds=600)["phase"] == "Succeeded"
    print(f"\n{STARTED} jobs ended after {time.monotonic() - began:.0f} s")
    # then the leader is the same
    after = lease(cluster)
    assert (after["holderIdentity"], after["leaseTransitions"]) == (
        before["holderIdentity"],
        before["leaseTransitions"],
    )
    assert restarts(cluster) == restarted
    # and when all controllers are replaced, a new one leads and none is restarted
    began, old = time.monotonic(), {str(pod["metadata"]["name"]) for pod in controllers(cluster)}
    cluster.kubectl.run("delete", "pod", *old, f"--namespace={cluster.kubectl.place.system}", "--wait=false")

    def new_leader() -> bool:
        holder = lease(cluster).get("holderIdentity") or ""
        return bool(holder) and holder.partition("_")[0] not in old

    wait_for("a new leader", new_leader, 300)
    print(f"a new controller led after {time.monotonic() - began:.0f} s")
    jobs.start(small_job("last", ENDS, "0"))
    assert jobs.ended("last", seconds=300)["phase"] == "Succeeded"
    assert restarts(cluster) == 0
