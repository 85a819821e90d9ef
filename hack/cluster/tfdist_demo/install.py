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


def wait_until_ready(kubectl: Kubectl) -> None:
    """Wait until all replicas of the controller are ready and updated.

    Raises:
        ClusterError: a pod cannot run, with the reason, or the wait exceeds its time limit.
    """
    start, place = time.monotonic(), kubectl.place
    while not _is_ready(kubectl):
        elapsed = time.monotonic() - start
        explain_trouble(kubectl, place.system, place.selector, waited_seconds=elapsed)
        if elapsed > READY_SECONDS:
            raise ClusterError(
                f"the controller is not ready after {READY_SECONDS} s. Check: kubectl -n {place.system} get pods,events"
            )
        time.sleep(0.5)


def _is_ready(kubectl: Kubectl) -> bool:
    """Return whether all replicas of the Deployment are updated and available, and no old ones remain."""
    deployment = kubectl.get("deployment", kubectl.place.controller, f"--namespace={kubectl.place.system}")
    if deployment is None:
        return False
    desired, status = deployment["spec"]["replicas"], deployment.get("status") or {}
    is_observed = status.get("observedGeneration") == deployment["metadata"]["generation"]
    counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
    return bool(is_observed and all(count == desired for count in counts))


def _of_newest_version(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the pods of the newest ReplicaSet of a Deployment: older pods that crash are being replaced."""
    newest = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)
    return [pod for pod in pods if newest and _version(pod) == _version(newest)]


def _version(pod: dict[str, Any]) -> str | None:
    version: str | None = (pod["metadata"].get("labels") or {}).get("pod-template-hash")
    return version


def explain_trouble(kubectl: Kubectl, namespace: str, selector: str, *, waited_seconds: float) -> None:
    """Raise `ClusterError` if a pod cannot run, with the reason and the end of its log.

    Args:
        kubectl: of the cluster.
        namespace: of the pods.
        selector: their labels.
        waited_seconds: a pod that fits on no node is given some time, since others may end.
    """
    for pod in _of_newest_version(kubectl.pods(namespace, selector)):
        reason = trouble.of_pod(pod)
        if not reason and waited_seconds > UNSCHEDULABLE_SECONDS:
            reason = trouble.unschedulable(pod)
        if reason:
            log = kubectl.logs(namespace, pod["metadata"]["name"])
            raise ClusterError(reason + (f"\nthe end of its log:\n{log}" if log else ""))
