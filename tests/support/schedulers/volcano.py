"""Volcano as processes: its scheduler, and its controllers of queues and of pods without a PodGroup; no webhook."""

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from support.api import Api
from support.ports import free_ports
from support.schedulers import crds
from support.schedulers.program import running
from tfdist_cluster.control_plane import healthy
from tfdist_cluster.schedulers import VOLCANO

NAME: Final = "volcano"
"""`schedulerName` of its pods."""
API_VERSION: Final = "scheduling.volcano.sh/v1beta1"
GROUPS: Final = f"/apis/{API_VERSION}/namespaces/{{ns}}/podgroups"
QUEUES: Final = f"/apis/{API_VERSION}/queues"
ANNOTATION: Final = "scheduling.k8s.io/group-name"
"""Annotation of a pod: its PodGroup."""


@contextmanager
def volcano(api: Api, folder: pathlib.Path) -> Iterator[None]:
    """Run Volcano until the block ends.

    Args:
        api: the API server.
        folder: for its logs.
    """
    source = VOLCANO.source()
    definitions = sorted((source / "config/crd/volcano/bases").glob("*.yaml"))
    scheduler_port, controller_port = free_ports(2)
    scheduler = [
        *_common(api, scheduler_port),
        f"--scheduler-conf={source / 'installer/helm/chart/volcano/config/volcano-scheduler.conf'}",
        f"--cache-dump-dir={folder}",
    ]
    controller = [*_common(api, controller_port), "--controllers=pg-controller,queue-controller"]
    # A plugin for devices takes its kubeconfig from there, or else that of the user's own cluster.
    variables = {"KUBECONFIG": str(api.kubeconfig)}
    with (
        crds.installed(api, [crd for path in definitions for crd in crds.documents(path)]),
        running("vc-scheduler", scheduler, folder, lambda: healthy(_health(scheduler_port)), **variables),
        running("vc-controller-manager", controller, folder, lambda: _queue_is_open(api), **variables),
    ):
        yield


def _common(api: Api, port: int) -> list[str]:
    address = f"--healthz-address=127.0.0.1:{port}"
    return [f"--kubeconfig={api.kubeconfig}", "--leader-elect=false", "--enable-healthz=true", address]


def _health(port: int) -> str:
    return f"http://127.0.0.1:{port}/healthz"


def _queue_is_open(api: Api) -> bool:
    """Return whether the queue `default`, which the scheduler creates, takes PodGroups: the controller sets that."""
    answer = api.send("GET", f"{QUEUES}/default")
    return answer.ok and answer.json().get("status", {}).get("state") == "Open"
