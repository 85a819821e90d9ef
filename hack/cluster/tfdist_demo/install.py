"""Installs the packaged chart, and waits until the controller is ready."""

import time
from typing import Any, Final

from tfdist_cluster import console
from tfdist_cluster.errors import ClusterError
from tfdist_demo import helm, manifests, trouble
from tfdist_demo.kubectl import Kubectl

READY_SECONDS: Final = 180
UNSCHEDULABLE_SECONDS: Final = 30


def install(kubectl: Kubectl, *, controller: str, trainer: str) -> None:
    """Install the chart, or upgrade it, with these images; return when the controller is ready."""
    program = helm.Helm(helm.program(), kubectl.kubeconfig)
    with console.step("install the controller", expected_seconds=15):
        kubectl.apply(manifests.restricted_namespace(kubectl.place.system))
        images = helm.image_options({"image": controller, "trainerImage": trainer})
        program.install(program.package(), kubectl.place, *images)
        kubectl.run("wait", "--for=condition=Established", "crd/tfdistjobs.tfdist.dev", "--timeout=30s")
        wait_until_ready(kubectl)


def uninstall(kubectl: Kubectl) -> None:
    """Remove the release and its namespace; the definition of TFDistJob stays, and with it the jobs of others."""
    program = helm.Helm(helm.program(), kubectl.kubeconfig)
    place = kubectl.place
    program.run("uninstall", place.release, f"--namespace={place.system}", "--ignore-not-found", "--wait")
    kubectl.run("delete", "namespace", place.system, "--ignore-not-found", "--wait=false")


def wait_until_ready(kubectl: Kubectl) -> None:
    """Return when all replicas of the controller are ready and of the present version.

    Raises:
        ClusterError: a pod will not run, with the reason; or it took too long.
    """
    started, place = time.monotonic(), kubectl.place
    while not _is_ready(kubectl):
        waited = time.monotonic() - started
        explain_trouble(kubectl, place.system, place.selector, waited_seconds=waited)
        if waited > READY_SECONDS:
            raise ClusterError(
                f"the controller is not ready after {READY_SECONDS} s. Check: kubectl -n {place.system} get pods,events"
            )
        time.sleep(0.5)


def _is_ready(kubectl: Kubectl) -> bool:
    """Return whether the present version of the Deployment has all its replicas, and no old ones are left."""
    deployment = kubectl.get("deployment", kubectl.place.controller, f"--namespace={kubectl.place.system}")
    if deployment is None:
        return False
    wanted, status = deployment["spec"]["replicas"], deployment.get("status") or {}
    seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    return bool(seen and all(count == wanted for count in counts))


def _of_newest_version(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the pods that the newest version of a Deployment made: one that crashed before is being replaced."""
    newest = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)
    return [pod for pod in pods if newest and _version(pod) == _version(newest)]


def _version(pod: dict[str, Any]) -> str | None:
    version: str | None = (pod["metadata"].get("labels") or {}).get("pod-template-hash")
    return version


def explain_trouble(kubectl: Kubectl, namespace: str, selector: str, *, waited_seconds: float) -> None:
    """Raise `ClusterError` when a pod will not run, with the reason and the end of its log.

    Args:
        kubectl: of the cluster.
        namespace: of the pods.
        selector: their labels.
        waited_seconds: a pod that fits on no node is given some time, since others may end.
    """
    for pod in _of_newest_version(kubectl.pods(namespace, selector)):
        what = trouble.of_pod(pod)
        if not what and waited_seconds > UNSCHEDULABLE_SECONDS:
            what = trouble.unschedulable(pod)
        if what:
            log = kubectl.logs(namespace, pod["metadata"]["name"])
            raise ClusterError(what + (f"\nthe end of its log:\n{log}" if log else ""))
