"""The default security context of a replica.

The bundled trainer runs under Kubernetes' `restricted` Pod Security Standard with a read-only root file system. Another
image may need to run as root and to write anywhere, as most TensorFlow images do; it gets Kubernetes' defaults with the
seccomp profile `RuntimeDefault` and without privilege escalation (ADR 8).

A default never contradicts the job's template: the API server, or the kubelet, would reject every pod.
"""

from collections.abc import Mapping
from typing import Any, Final

from tfdist.render.template import main_container

_ALL_DEVICES_AND_MOUNTS: Final = frozenset({"SYS_ADMIN", "CAP_SYS_ADMIN"})


def default_security(requested: Mapping[str, Any], *, bundled: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the security contexts of the pod and of the container `tensorflow`.

    Args:
        requested: the template that is merged over the result.
        bundled: whether the container runs the image of the installation.
    """
    spec = requested.get("spec", {})
    if spec.get("os", {}).get("name") == "windows":
        return {}, {}  # the API server rejects Linux's settings in a Windows pod
    pod: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
    main_security = main_container(requested).get("securityContext", {})
    container: dict[str, Any] = {} if _escalates(main_security) else {"allowPrivilegeEscalation": False}
    # Another image may need root and write anywhere (ADR 8).
    if bundled:
        restricted = {"capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
        non_root = {} if _runs_as_root(spec) else {"runAsNonRoot": True}
        return non_root | pod, container | restricted
    return pod, container


def _escalates(security: Mapping[str, Any]) -> bool:
    """Return whether a container has privileges that are incompatible with `allowPrivilegeEscalation: false`."""
    capabilities = security.get("capabilities", {}).get("add", ())
    return security.get("privileged") is True or not _ALL_DEVICES_AND_MOUNTS.isdisjoint(capabilities)


def pod_runs_as_root(template: Mapping[str, Any]) -> bool:
    """Return whether the pod sets the user 0 for all of its containers."""
    return _is_root(template.get("spec", {}))


def _runs_as_root(spec: Mapping[str, Any]) -> bool:
    """Return whether the pod or a container sets the user 0, which the kubelet rejects with `runAsNonRoot`."""
    parts = (spec, *spec.get("initContainers", ()), *spec.get("containers", ()))
    return any(map(_is_root, parts))


def _is_root(part: Mapping[str, Any]) -> bool:
    security: Mapping[str, Any] = part.get("securityContext", {})
    return "runAsUser" in security and bool(security["runAsUser"] == 0)
