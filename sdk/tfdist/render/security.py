"""The default security context of a replica.

The bundled trainer runs under Kubernetes' `restricted` Pod Security Standard with a read-only root file system. Another
image may need to run as root and to write anywhere, as most TensorFlow images do; it gets Kubernetes' defaults with the
seccomp profile `RuntimeDefault` and without privilege escalation (ADR 8).
"""

from typing import Any


def default_security(*, bundled: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the security contexts of the pod and of the container `tensorflow`."""
    pod: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
    container: dict[str, Any] = {"allowPrivilegeEscalation": False}
    if bundled:
        restricted = {"capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
        return {"runAsNonRoot": True} | pod, container | restricted
    return pod, container
