"""Which Kubernetes the plain control plane runs: the newest, or an older one that `TFDIST_KUBERNETES` names.

Older versions have only the servers that a controller uses, from a separate Go module
(`hack/cluster/go-<version>`); etcd, kubeadm, kubectl and all of the kind cluster are of the newest version.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tfdist_cluster import content, gobuild, lock, tools, versions
from tfdist_cluster.errors import ClusterError
from tfdist_cluster.paths import State

VARIABLE: Final = "TFDIST_KUBERNETES"
SERVERS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def chosen(environment: Mapping[str, str] = os.environ) -> str:
    """Return the version to run, such as `v1.29.15`.

    Raises:
        ClusterError: it cannot be built here.
    """
    version = environment.get(VARIABLE) or versions.KUBERNETES
    if version not in (available := (versions.KUBERNETES, *versions.OLDER)):
        raise ClusterError(f"{VARIABLE} is {version}, of which there is no Go module; there are {', '.join(available)}")
    return version


def programs(state: State, version: str) -> Mapping[str, Path]:
    """Return the servers of a control plane by name, built if they are not current."""
    newest = tools.ensure(state, "kube-apiserver").parent
    servers = {name: newest / name for name in ("etcd", *SERVERS)}
    if version != versions.KUBERNETES:
        with lock.exclusive(state.root / f"tool-kube-{version}.lock"):
            older = gobuild.older(state, version, SERVERS)
        servers |= {name: older / name for name in SERVERS}
    return servers


def require_same(folder: Path, version: str, *, runs: bool) -> None:
    """Check that the control plane running in `folder` has this version, or record the version if none runs.

    Raises:
        ClusterError: a control plane of another version runs.
    """
    record = folder / "version"
    current = record.read_text().strip() if record.exists() else version
    if runs and current != version:
        raise ClusterError(
            f"a control plane of Kubernetes {current} runs, not {version}: stop it, `control-plane down`"
        )
    content.write_atomically(record, f"{version}\n")
