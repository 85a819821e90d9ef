"""The security context that a replica gets where its author says nothing.

The bundled trainer runs under Kubernetes' `restricted` Pod Security Standard with a read-only root. An image of
the author's own may want to run as root and write where it likes, as most TensorFlow images do; it runs with what
Kubernetes gives it, but with a filter of system calls and without a way to more rights (ADR 8).
"""

from typing import Any


def default_security(*, bundled: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the security contexts of the pod and of the container `tensorflow`."""
    of_pod: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
    of_container: dict[str, Any] = {"allowPrivilegeEscalation": False}
    if bundled:
        restricted = {"capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
        return {"runAsNonRoot": True} | of_pod, of_container | restricted
    return of_pod, of_container
