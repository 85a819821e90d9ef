"""A kubelet that a user can open connections to: exec runs on this machine, and ports are ports of this machine.

It is a second kwok with a node of its own. Its server is that of kubelets (`k8s.io/cri-streaming`), and the API server
speaks with it as with any other.
"""

import json
import pathlib
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from support.api import PODS, Api, Json
from support.kubelet import NODES
from support.polling import WAIT_SECONDS, wait_for
from support.ports import free_ports
from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role
from tfdist.render.names import ATTEMPT_LABEL, INDEX_LABEL, ROLE_LABEL, job_labels, pod_name
from tfdist_cluster import control_plane, tools
from tfdist_cluster.paths import State

_ANNOTATION: Final = "tests.tfdist.dev/streaming"
_ADDRESS: Final = "127.0.0.1"


class StreamingNode:
    """A node whose pods run at once; some ports of a pod are ports of this machine."""

    def __init__(self, api: Api, name: str) -> None:
        self._api, self.name = api, name

    def run_replica(self, job: Json, role: str, index: int, attempt: int = 0) -> Json:
        """Create the pod of a replica, wait until it runs, and return it."""
        name = pod_name(job["metadata"]["name"], Role(role), index, attempt)
        labels = {ROLE_LABEL: role, INDEX_LABEL: str(index), ATTEMPT_LABEL: str(attempt)}
        return self.run_pod(job, name, "tensorflow", job_labels(_typed(job)) | labels)

    def run_pod(self, job: Json, name: str, container: str, labels: Json) -> Json:
        """Create a pod on the node, wait until it runs, and return it."""
        namespace = job["metadata"]["namespace"]
        pod = {
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "nodeName": self.name,
                "containers": [{"name": container, "image": "x"}],
                "automountServiceAccountToken": False,
            },
        }
        path = PODS.format(ns=namespace)
        self._api.do("POST", path, pod)

        def running() -> Json | None:
            stored = self._api.do("GET", f"{path}/{name}")
            return stored if stored["status"].get("phase") == "Running" else None

        stored = wait_for(f"pod {name} to run", running)
        assert stored is not None
        return stored


@contextmanager
def streaming_node(api: Api, folder: pathlib.Path, ports: dict[int, int]) -> Iterator[StreamingNode]:
    """Run the kubelet until the block ends.

    Args:
        api: as an administrator.
        folder: of its files.
        ports: ports of this machine by those of the pods; at others of a pod nothing listens.
    """
    state = State.from_environment()
    (port,) = free_ports(1)
    name = f"streaming-{uuid.uuid4().hex[:8]}"
    pki = state.control_plane / "pki"
    config = folder / "kwok.yaml"
    config.write_text(_config(state, ports))
    command = [
        tools.ensure(state, control_plane.FAKE), "--kubeconfig", api.kubeconfig, f"--config={config}",
        "--manage-all-nodes=false", f"--manage-nodes-with-annotation-selector={_ANNOTATION}={name}",
        f"--node-ip={_ADDRESS}", f"--node-port={port}", f"--server-address={_ADDRESS}:{port}",
        f"--tls-cert-file={pki / 'apiserver.crt'}", f"--tls-private-key-file={pki / 'apiserver.key'}",
    ]  # fmt: skip
    with (folder / "kwok.log").open("wb") as log:
        process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log)
    try:
        _create_node(api, name, port)
        yield StreamingNode(api, name)
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)
        print((folder / "kwok.log").read_text())  # pytest shows it if a test failed
        for pod in api.do("GET", "/api/v1/pods", fieldSelector=f"spec.nodeName={name}")["items"]:
            path = f"{PODS.format(ns=pod['metadata']['namespace'])}/{pod['metadata']['name']}"
            api.send("DELETE", path, {"gracePeriodSeconds": 0})
        api.do("DELETE", f"{NODES}/{name}")


def _create_node(api: Api, name: str, port: int) -> None:
    metadata = {"name": name, "annotations": {_ANNOTATION: name}, "labels": {"kubernetes.io/hostname": name}}
    taint = {"key": _ANNOTATION, "effect": "NoSchedule"}  # only for pods that name the node
    api.do("POST", NODES, {"metadata": metadata, "spec": {"taints": [taint]}})
    room = {"cpu": "100", "memory": "1Ti", "pods": "100"}
    status = {
        "capacity": room,
        "allocatable": room,
        "addresses": [{"type": "InternalIP", "address": _ADDRESS}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    api.do("PATCH", f"{NODES}/{name}/status", {"status": status}, "merge-patch")


def _config(state: State, ports: dict[int, int]) -> str:
    stages = (
        control_plane.fake_kubelet(state).read_text().replace("options: {", "options: {enableDebuggingHandlers: true, ")
    )
    kind = {"apiVersion": "kwok.x-k8s.io/v1alpha1"}
    execs = {"kind": "ClusterExec", "metadata": {"name": "here"}, "spec": {"execs": [{"local": {}}]}}
    forwards = [{"ports": [port], "target": {"address": _ADDRESS, "port": here}} for port, here in ports.items()]
    closed = {"target": {"address": _ADDRESS, "port": 1}}
    forward = {"kind": "ClusterPortForward", "metadata": {"name": "here"}, "spec": {"forwards": [*forwards, closed]}}
    return "\n---\n".join([stages, *(json.dumps(kind | each) for each in (execs, forward))])


def _typed(job: Json) -> TFDistJob:
    return TFDistJob.model_validate({key: value for key, value in job.items() if key != "status"})
