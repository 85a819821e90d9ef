"""A gang of TensorFlow processes in a queue of Kueue, which runs as a process of this machine."""

import pathlib
import subprocess
from collections.abc import Iterator

import pytest
from support.api import Api, Json
from support.e2e import Cluster
from support.polling import wait_for
from support.rounds import counting_job, started
from support.schedulers import kueue

from tfdist_demo import target

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]

QUEUE = "team-a"
REPLICAS = 2
CONTROLLERS = 2
EPOCHS = 300
_GATEWAY = ("docker", "network", "inspect", "kind", "--format", "{{(index .IPAM.Config 0).Gateway}}")
"""The address by which containers of kind reach this machine."""


@pytest.fixture
def api(cluster: Cluster, tmp_path: pathlib.Path) -> Iterator[Api]:
    """The API server of the cluster, with Kueue."""
    chosen = target.choose()
    if not chosen.own:
        pytest.skip("the API server of another cluster does not reach a process of this machine")
    address = subprocess.run(_GATEWAY, check=True, capture_output=True, text=True).stdout.strip()
    server = Api(pathlib.Path(chosen.kubeconfig))
    with kueue.kueue(server, tmp_path, address):
        wait_for("both controllers to find Kueue", lambda: _finders(cluster) == CONTROLLERS)
        yield server


def _finders(cluster: Cluster) -> int:
    """Return how many replicas of the controller have found Kueue, and not lost it since."""
    selector = ("--namespace=tfdist-system", "--selector=app.kubernetes.io/name=tfdist-controller", "--tail=-1")
    lines = [line for line in cluster.kubectl.run("logs", *selector).splitlines() if kueue.GROUP in line]
    return sum('"event":"served"' in line for line in lines) - sum("no longer served" in line for line in lines)


def urgent_workload(namespace: str) -> Json:
    """Return a Workload without pods that takes the whole quota."""
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": REPLICAS}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {"queueName": QUEUE, "priority": 1000, "podSets": [{"name": "main", "count": 1, "template": template}]}
    meta = {"name": "urgent", "namespace": namespace}
    return {"apiVersion": f"{kueue.GROUP}/v1beta1", "kind": "Workload", "metadata": meta, "spec": spec}


def test_a_gang_that_kueue_preempts_saves_waits_and_sees_every_example_once(cluster: Cluster, api: Api) -> None:
    # given a gang that trains, and has the whole quota
    namespace = cluster.namespace
    kueue.create_queue(api, namespace, QUEUE, cpu=REPLICAS)
    spec: Json = {"scheduling": {"queue": QUEUE}, "resources": {"requests": {"cpu": "1"}}}

    def phase(name: str) -> str:
        return str(cluster.job(name).get("status", {}).get("phase", ""))

    with started(cluster, "queued", replicas=REPLICAS, epochs=EPOCHS, **spec) as gang:
        # and another one in the queue
        cluster.delete_job("second")
        cluster.apply(counting_job("second", replicas=REPLICAS, epochs=1, **spec))
        wait_for("the second to wait", lambda: phase("second") == "Queued")
        assert "insufficient unused quota for cpu" in gang.jobs.printed("second")["MESSAGE"]
        # when a more urgent Workload preempts it
        workloads = kueue.WORKLOADS.format(ns=namespace)
        api.do("POST", workloads, urgent_workload(namespace))
        wait_for("the gang to wait", lambda: phase("queued") == "Queued")
        assert not [pod for pod in cluster.pods("queued") if pod["status"]["phase"] == "Running"]
        saved = cluster.job("queued")["status"]["progress"]["lastCheckpoint"]["step"]
        cluster.delete_job("second")
        # when the quota is free again
        before = gang.now()
        api.do("DELETE", f"{workloads}/urgent")
        # then the gang trains on from the checkpoint that it saved
        gang.steps_after(before)
        gang.hurry()
        status = gang.jobs.ended("queued", seconds=600)
        assert (status["phase"], status["attempt"]) == ("Succeeded", 1), gang.described()
        assert (status["restarts"]["counted"], status["restarts"]["uncounted"]) == (0, 0)
        assert status["progress"]["step"] > saved > 0
        gang.each_example_once()
