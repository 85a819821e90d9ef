"""Who reaches what of a running job: its members and the controller do, a stranger of its namespace does not.

TensorBoard is read as by its user, through `kubectl port-forward`.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import requests
from support.api import Json
from support.e2e import Cluster, example
from support.polling import wait_for

from tfdist import contract

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

JOB = "e2e-isolated"
BOARD = f"{JOB}-tensorboard"
BOARD_PORT = 6006
OPENED = f"{JOB}-opened"
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[Cluster]:
    cluster.delete_job(JOB)
    job = example(JOB, epochs=2000)
    job["spec"]["tensorBoard"] = {}
    output = cluster.apply(job)
    assert "created" in output, output
    try:
        yield cluster
    finally:
        cluster.delete_job(JOB)


def progress(cluster: Cluster) -> Json:
    found: Json = cluster.job(JOB).get("status", {}).get("progress", {})
    return found


def reaches(cluster: Cluster, address: str, port: int) -> bool:
    """Return whether a pod that is none of the job's gets a connection."""
    try:
        cluster.inside("python", "-c", CONNECT, address, str(port))
    except Exception:
        return False
    return True


@contextmanager
def forwarded(cluster: Cluster) -> Iterator[str]:
    """Forward a port of this machine to TensorBoard, and yield its address."""
    kubectl = cluster.kubectl
    command = [str(kubectl.program), f"--kubeconfig={kubectl.kubeconfig}", f"--namespace={cluster.namespace}"]
    forward = [*command, "port-forward", f"service/{BOARD}", f":{BOARD_PORT}"]
    with subprocess.Popen(forward, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
            assert port, "kubectl forwards no port"
            yield f"http://127.0.0.1:{port[1]}"
        finally:
            process.terminate()


def test_members_and_the_controller_reach_the_job(running: Cluster) -> None:
    wait_for("steps, which need both workers", lambda: progress(running).get("step"), seconds=300)
    assert progress(running)["reportedAt"], "the controller asks the report port"


def test_a_stranger_reaches_neither_tensorflow_nor_the_reports(running: Cluster) -> None:
    addresses = [pod["status"]["podIP"] for pod in running.pods(JOB)]
    assert len(addresses) == 2
    for address in addresses:
        assert not reaches(running, address, contract.TF_PORT)
        assert not reaches(running, address, contract.REPORT_PORT)


def test_tensorboard_shows_the_run_to_who_may_forward_ports(running: Cluster) -> None:
    assert running.job(JOB)["status"]["tensorBoard"] == {"service": BOARD}
    in_namespace = f"--namespace={running.namespace}"
    running.kubectl.run("rollout", "status", f"deployment/{BOARD}", in_namespace, "--timeout=170s", timeout_seconds=180)
    with forwarded(running) as address:

        def runs() -> list[str]:
            answer = requests.get(f"{address}/data/runs", timeout=30)
            answer.raise_for_status()
            found: list[str] = json.loads(answer.text)
            return found

        assert wait_for("the run", runs)


def test_a_stranger_does_not_reach_tensorboard(running: Cluster) -> None:
    assert not reaches(running, f"{BOARD}.{running.namespace}.svc", BOARD_PORT)


def test_it_is_the_policies_that_keep_strangers_out(running: Cluster) -> None:
    (address, *_) = (pod["status"]["podIP"] for pod in running.pods(JOB))
    # One more policy, since policies add up: one that is deleted would be created again.
    everything = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]}
    kind = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    running.apply(kind | {"metadata": {"name": OPENED, "namespace": running.namespace}, "spec": everything})
    try:
        wait_for("the report port to be open", lambda: reaches(running, address, contract.REPORT_PORT))
        board = f"{BOARD}.{running.namespace}.svc"
        wait_for("TensorBoard's port to be open", lambda: reaches(running, board, BOARD_PORT))
    finally:
        running.kubectl.run("delete", "networkpolicy", OPENED, f"--namespace={running.namespace}")


def test_tensorboard_goes_with_its_job(running: Cluster) -> None:
    running.delete_job(JOB)
    get = ("deployment,service,networkpolicy", f"--namespace={running.namespace}", f"--selector=tfdist.dev/job={JOB}")
    wait_for("its end", lambda: not (running.kubectl.get(*get) or {"items": []})["items"])
