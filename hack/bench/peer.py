"""The Kubeflow training operator, built from its Go module and run as its manifests run it, without its webhook.

Its validating webhook is left out: what it checks, our CRD lets the API server check, at no cost that would show.
"""

import base64
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from support import tfjob_examples
from support.ports import free_ports

from bench import process
from bench.cluster import Cluster, wait
from bench.process import Process
from bench.subject import CONTAINER, has_condition
from tfdist_cluster import tools

Json = dict[str, Any]

TUNED: Final = ("--controller-threads=16", "--kube-api-qps=5000", "--kube-api-burst=5000")
_PROGRAM: Final = "training-operator"
_NAMESPACE: Final = "kubeflow"
_SECRET: Final = "training-operator-webhook-cert"  # noqa: S105  a name
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CERTIFICATES: Final = Path("/tmp/k8s-webhook-server/serving-certs")  # noqa: S108  compiled into the peer


@dataclass(frozen=True)
class Peer:
    """The training operator with certain flags."""

    name: str
    flags: tuple[str, ...]
    jobs: str = "/apis/kubeflow.org/v1/namespaces/{ns}/tfjobs"

    def install(self, cluster: Cluster) -> None:
        """Build it, and install its CRD, its namespace, and the Secret that it fills with certificates."""
        tools.ensure(cluster.programs, _PROGRAM)
        remove_certificates()  # of another API server: the peer would take them for its own
        api = cluster.api
        crd = yaml.load(_crd_file().read_text(), yaml.CSafeLoader)
        if not api.send("GET", f"{_CRDS}/{crd['metadata']['name']}").ok:
            api.do("POST", _CRDS, crd)
            api.do("POST", "/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
            api.do("POST", f"/api/v1/namespaces/{_NAMESPACE}/secrets", {"metadata": {"name": _SECRET}})
        path = f"{_CRDS}/{crd['metadata']['name']}"
        wait(lambda: has_condition(api.do("GET", path), "Established"), "the peer's CRD to be served")

    @contextmanager
    def start(self, cluster: Cluster) -> Iterator[Process]:
        """Run it, and give it the certificates that a kubelet would mount."""
        metrics, probe, webhook = free_ports(3)
        addresses = (
            f"--metrics-bind-address=127.0.0.1:{metrics}",
            f"--health-probe-bind-address=127.0.0.1:{probe}",
            f"--webhook-server-port={webhook}",
        )
        with process.running(
            [cluster.programs.bin / _PROGRAM, "--enable-scheme=tfjob", *addresses, *self.flags],
            log=cluster.state.logs / f"{self.name}.log",
            environment={"KUBECONFIG": str(cluster.kubeconfig)},
            address=f"http://127.0.0.1:{metrics}",
            counter="rest_client_requests_total",
        ) as running:
            wait(lambda: running.answers("/metrics"), f"{self.name} to answer")
            wait(lambda: _certificates_given(cluster), "the certificates of the peer")
            yield running

    def job(self, namespace: str, name: str, workers: int) -> Json:
        """Return a job that runs a command in an image of its own, and restarts what ends by a signal."""
        container = {
            "name": CONTAINER,
            "image": "registry.example.com/team/train:7",
            "command": ["python", "train.py"],
        }
        worker = {
            "replicas": workers,
            "restartPolicy": "ExitCode",
            "template": {"spec": {"containers": [container]}},
        }
        return {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"tfReplicaSpecs": {"Worker": worker}},
        }

    def is_(self, job: Json, condition: str) -> bool:
        """Return whether a job is `Running` or `Succeeded`."""
        return has_condition(job, condition)

    def replaced(self, workers: int) -> int:
        """Only the pod that failed is replaced, and the others are left to themselves."""
        return min(1, workers)


def remove_certificates() -> None:
    """Remove what was left outside the state's folder."""
    shutil.rmtree(_CERTIFICATES.parent, ignore_errors=True)


def _certificates_given(cluster: Cluster) -> bool:
    secret = cluster.api.do("GET", f"/api/v1/namespaces/{_NAMESPACE}/secrets/{_SECRET}")
    data = secret.get("data") or {}
    if not data.get("tls.crt"):
        return False
    _CERTIFICATES.mkdir(parents=True, exist_ok=True)
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (_CERTIFICATES / name).write_bytes(base64.b64decode(data[name]))
    return True


def _crd_file() -> Path:
    """Return the CRD in the peer's module."""
    return tfjob_examples.module() / "manifests" / "base" / "crds" / "kubeflow.org_tfjobs.yaml"
