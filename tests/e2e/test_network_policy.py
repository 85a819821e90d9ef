"""A NetworkPolicy is enforced between pods on different nodes; the isolation of jobs relies on it.

The test runs on the kind cluster of this repository, whose nodes carry a small image with a shell.
"""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.nodes import require_own_nodes

pytestmark = pytest.mark.e2e

CLUSTER = Path(__file__).resolve().parents[2] / "hack" / "cluster"
IMAGE = "localhost/busybox:1"
CLOSED, OPEN = 8080, 9090  # the policy of the test leaves only the second open
Kubectl = Callable[..., str]


@pytest.fixture
def kubectl() -> Iterator[Kubectl]:
    """Run kubectl in a namespace of its own, gone afterwards."""
    require_own_nodes("shows how the network of this repository's kind cluster keeps policies")
    printed = [sys.executable, "-m", "tfdist_cluster"]
    environment = {**os.environ, "PYTHONPATH": str(CLUSTER)}
    kubeconfig, programs = (
        subprocess.run([*printed, name], check=True, capture_output=True, text=True, env=environment).stdout.strip()
        for name in ("kubeconfig", "bin")
    )
    namespace = f"network-policy-{uuid.uuid4().hex[:6]}"

    def run(*arguments: str, stdin: str = "") -> str:
        command = [f"{programs}/kubectl", f"--kubeconfig={kubeconfig}", f"--namespace={namespace}", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, input=stdin, timeout=120).stdout

    run("create", "namespace", namespace)
    yield run
    run("delete", "namespace", namespace, "--wait=false")


def _pod(name: str, node: str, *commands: str) -> dict[str, Any]:
    containers = [
        {"name": f"c{number}", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", command]}
        for number, command in enumerate(commands)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": containers},
    }


def _only_open_port() -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "server"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "server"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"port": OPEN}]}],
        },
    }


def _reachable(kubectl: Kubectl, address: str, port: int) -> bool:
    # busybox's own `wget -T` crashes
    fetch = f"timeout 3 wget -q -O /dev/null http://{address}:{port}/passwd"
    try:
        kubectl("exec", "client", "--", "sh", "-c", fetch)
    except subprocess.CalledProcessError:
        return False
    return True


def _eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def test_a_policy_closes_one_port_between_nodes_and_leaves_another_open(kubectl: Kubectl) -> None:
    selector = "--selector=!node-role.kubernetes.io/control-plane"
    workers = kubectl("get", "nodes", selector, "--output=jsonpath={.items[*].metadata.name}").split()
    if len(workers) < 2:
        pytest.skip("needs two workers")
    pods = [
        _pod("server", workers[0], *(f"httpd -f -h /etc -p {port}" for port in (CLOSED, OPEN))),
        _pod("client", workers[1], "sleep 1000000"),
    ]
    kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    kubectl("wait", "--for=condition=Ready", "pod/server", "pod/client", "--timeout=60s")
    address = kubectl("get", "pod", "server", "--output=jsonpath={.status.podIP}")

    for port in (CLOSED, OPEN):
        _eventually(partial(_reachable, kubectl, address, port), f"port {port} is open without a policy")

    kubectl("create", "-f", "-", stdin=json.dumps(_only_open_port()))
    _eventually(lambda: not _reachable(kubectl, address, CLOSED), "the policy closes the port")
    _eventually(lambda: _reachable(kubectl, address, OPEN), "the policy leaves the other port open")
    assert not _reachable(kubectl, address, CLOSED)

    kubectl("delete", "networkpolicy", "server")
    _eventually(lambda: _reachable(kubectl, address, CLOSED), "without the policy the port is open again")
