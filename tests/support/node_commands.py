"""Commands as root among all processes of a node.

The nodes of the kind cluster are containers of this machine's Docker engine. In a cluster of the user's a pod that is
privileged and sees the node's processes does it, in a namespace of the tests that goes with them; no other pod there
has rights like these.
"""

import functools
from typing import Any

from support.api import Json
from support.e2e import INSPECTOR
from tfdist_cluster import shell
from tfdist_demo import borrowed, target
from tfdist_demo.kubectl import Kubectl
from tfdist_demo.place import TEST_NAMESPACES

NAMESPACE = f"{TEST_NAMESPACES}node-commands"


def on_node(node: str, *command: str) -> str:
    """Run a command on a node and return what it prints.

    Raises:
        CommandError: it failed, or the cluster rejects such a pod.
    """
    chosen = target.choose()
    if chosen.own:
        return shell.run(["docker", "exec", node, *command], timeout_seconds=30)
    kubectl = borrowed.borrow(chosen).kubectl()
    return kubectl.run("exec", f"--namespace={NAMESPACE}", _privileged_pod(kubectl, node), "--", *command)


@functools.cache
def _privileged_pod(kubectl: Kubectl, node: str) -> str:
    """Return the pod on a node, started when it is first needed; the namespace is removed with all of the tests'."""
    # Its image is one that every node of the tests can get.
    inspector = kubectl.get("pod", INSPECTOR, f"--namespace={kubectl.place.namespace}")
    assert inspector is not None, "the fixture `cluster` runs it"
    (container,) = inspector["spec"]["containers"]
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    kubectl.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}},
        _pod(node, container["image"]),
    )
    kubectl.run("wait", "--for=condition=Ready", f"pod/{node}", f"--namespace={NAMESPACE}", "--timeout=50s")
    return node


def _pod(node: str, image: str) -> Json:
    root = {"privileged": True, "runAsUser": 0, "runAsNonRoot": False}
    container = {"name": "commands", "image": image, "command": ["sleep", "infinity"], "securityContext": root}
    spec: dict[str, Any] = {
        "nodeName": node,
        "hostPID": True,
        "tolerations": [{"operator": "Exists"}],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": node, "namespace": NAMESPACE}, "spec": spec}
