"""The TFDist controller: the real process, under the role that is shipped."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from support import controller as shipped
from support.api import JOBS
from support.ports import free_ports

from bench import process
from bench.cluster import Cluster, wait
from bench.process import Process
from bench.subject import has_condition

Json = dict[str, Any]

PROFILE: Final = "TFDIST_BENCH_PROFILE"
"""Environment variable with a folder: the controller then runs under cProfile, and its figures mean nothing."""


@dataclass(frozen=True)
class Ours:
    """TFDist."""

    name: str = "ours"
    jobs: str = JOBS

    def install(self, cluster: Cluster) -> None:
        """Install the CRD, the account and the role."""
        shipped.install(cluster.api)

    @contextmanager
    def start(self, cluster: Cluster) -> Iterator[Process]:
        """Run the controller."""
        (port,) = free_ports(1)
        environment = {
            "KUBECONFIG": str(_kubeconfig(cluster)),
            "TFDIST_PORT": str(port),
            "TFDIST_TRAINER_IMAGE": "tfdist/trainer:bench",
            "TFDIST_LEADER_ELECTION": "false",  # as the peer, by its default
        }
        module = "bench.profiled" if os.environ.get(PROFILE) else "tfdist_operator.app"
        with process.running(
            [sys.executable, "-m", module],
            log=cluster.state.logs / "ours.log",
            environment=environment,
            address=f"http://127.0.0.1:{port}",
            counter="tfdist_api_requests_total",
        ) as running:
            wait(lambda: running.answers("/readyz"), "TFDist's controller to be ready")
            yield running

    def job(self, namespace: str, name: str, workers: int) -> Json:
        """Return a job that runs a command in an image of its own."""
        return {
            "apiVersion": "tfdist.dev/v1",
            "kind": "TFDistJob",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "image": "registry.example.com/team/train:7",
                "command": ["python", "train.py"],
                "worker": {"replicas": workers},
            },
        }

    def is_(self, job: Json, condition: str) -> bool:
        """Return whether a job is `Running` or `Succeeded`."""
        return has_condition(job, condition)

    def replaced(self, workers: int) -> int:
        """A gang restarts as a whole: its members have lost each other anyway."""
        return workers


def _kubeconfig(cluster: Cluster) -> Path:
    """Write a kubeconfig that holds a token of the controller's account."""
    path = f"{shipped.ACCOUNT}/tfdist-controller/token"
    token_request = cluster.api.do("POST", path, {"spec": {"expirationSeconds": 7200}})
    server = {"server": cluster.api.host, "certificate-authority": cluster.api.authority}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "c", "user": {"token": token_request["status"]["token"]}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    file = cluster.state.control_plane / "ours.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file
