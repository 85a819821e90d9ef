"""The plugin Coscheduling of scheduler-plugins, in a second scheduler as a process."""

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import yaml

from support.api import Api, Json
from support.ports import free_ports
from support.schedulers import crds
from support.schedulers.program import running
from tfdist_cluster.control_plane import healthy
from tfdist_cluster.schedulers import SCHEDULER_PLUGINS

NAME: Final = "coscheduling"
"""`schedulerName` of its pods."""
API_VERSION: Final = "scheduling.x-k8s.io/v1alpha1"
GROUPS: Final = f"/apis/{API_VERSION}/namespaces/{{ns}}/podgroups"
LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""Label of a pod: its PodGroup."""


@contextmanager
def coscheduling(api: Api, folder: pathlib.Path) -> Iterator[None]:
    """Run the scheduler until the block ends.

    Args:
        api: the API server.
        folder: for its configuration and log.
    """
    definitions = crds.documents(SCHEDULER_PLUGINS.source() / "manifests/coscheduling/crd.yaml")
    (folder / "coscheduling.yaml").write_text(yaml.safe_dump(_configuration(api)))
    (port,) = free_ports(1)
    options = [
        "--config=coscheduling.yaml",
        f"--authentication-kubeconfig={api.kubeconfig}",
        f"--authorization-kubeconfig={api.kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
    ]
    with (
        crds.installed(api, definitions),
        running("coscheduling", options, folder, lambda: healthy(f"https://127.0.0.1:{port}/readyz")),
    ):
        yield


def _configuration(api: Api) -> Json:
    plugin = [{"name": "Coscheduling"}]
    profile = {
        "schedulerName": NAME,
        "plugins": {
            "multiPoint": {"enabled": plugin},
            "queueSort": {"enabled": plugin, "disabled": [{"name": "*"}]},  # of the queue there is one order only
        },
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(api.kubeconfig)},
        "profiles": [profile],
    }
