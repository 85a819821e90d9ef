"""Which cluster the demonstration uses, and the user's confirmation before it is changed.

A `KUBECONFIG` that is set names the user's cluster; otherwise it is the one that `tfdist_cluster` makes, which is
owned by this checkout and needs no confirmation.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tfdist_cluster import console, paths
from tfdist_cluster.errors import ClusterError
from tfdist_demo import manifests
from tfdist_demo.kubectl import Kubectl
from tfdist_demo.place import DEMO, Place
from tfdist_images import load


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster, and the storage class and access mode of volume claims in it."""

    kubeconfig: str
    own: bool
    storage_class: str | None
    access_mode: str
    place: Place = DEMO

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables for commands that use this cluster."""
        return {"KUBECONFIG": self.kubeconfig}

    def kubectl(self) -> Kubectl:
        """Return kubectl: from the path for the user's cluster, or the one built here for the cluster made here.

        Raises:
            ClusterError: there is none.
        """
        built_kubectl = paths.State.from_environment().bin / "kubectl"
        path = built_kubectl if self.own and built_kubectl.exists() else shutil.which("kubectl")
        if not path and not built_kubectl.exists():
            raise ClusterError("kubectl is not installed, and the cluster that KUBECONFIG names is used through it")
        return Kubectl(Path(path or built_kubectl), self.kubeconfig, self.place)


def choose(environment: Mapping[str, str] = os.environ) -> Target:
    """Return the cluster to use, from `KUBECONFIG`, `STORAGE_CLASS` and `ACCESS_MODE`."""
    own = load.is_own_cluster(environment)
    return Target(
        kubeconfig=str(paths.State.from_environment().kubeconfig) if own else environment["KUBECONFIG"],
        own=own,
        storage_class=environment.get("STORAGE_CLASS") or ("shared" if own else None),
        access_mode=environment.get("ACCESS_MODE") or ("ReadWriteMany" if own else "ReadWriteOnce"),
    )


def ask(target: Target, *, yes: bool) -> None:
    """Show the changes to the user's cluster and ask for confirmation.

    Raises:
        ClusterError: the user declined, or there is no terminal to ask on.
    """
    if target.own:
        return
    context = target.kubectl().run("config", "current-context").strip()
    console.info(changes(context, registry=os.environ.get("REGISTRY")))
    if yes:
        return
    if not sys.stdin.isatty():
        raise ClusterError(
            "confirmation is needed and there is no terminal. Set YES=1, or unset KUBECONFIG to use a cluster made here"
        )
    if input("Go on? [y/N] ").strip().lower() not in {"y", "yes"}:
        raise ClusterError("nothing was changed")


def changes(context: str, *, registry: str | None) -> str:
    """Return what the demonstration does to a cluster."""
    images = f"pushed to {registry}" if registry else "loaded into its nodes"
    return f"""KUBECONFIG is set: the demo uses the cluster of context {context}. It will create or update there
  - the custom resource definitions tfdistjobs.tfdist.dev and tfdistsweeps.tfdist.dev
  - the namespace tfdist-system with the release tfdist of the chart: the controller, its cluster roles and bindings
  - the namespace {manifests.NAMESPACE} with 1 GiB volume claims and the example's job
  - the images tfdist/controller and tfdist/trainer, {images}
Undo all of it: kubectl delete namespace {manifests.NAMESPACE}; helm uninstall tfdist --namespace tfdist-system;
  kubectl delete namespace tfdist-system; kubectl delete crd tfdistjobs.tfdist.dev tfdistsweeps.tfdist.dev"""
