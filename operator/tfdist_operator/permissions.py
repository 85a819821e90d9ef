"""What the controller may do in the cluster: one list, from which its role is generated.

The integration tests run the controller under exactly this role.
"""

from typing import Any, Final

from tfdist.api.v1 import GROUP, PLURAL
from tfdist_operator.kube import lease

NAME: Final = "tfdist-controller"
NAMESPACE: Final = "tfdist-system"

RULES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("", "pods", ("create", "delete", "list", "patch", "watch")),
    ("", "services", ("create", "deletecollection", "patch")),
    ("events.k8s.io", "events", ("create",)),
    ("networking.k8s.io", "networkpolicies", ("create", "deletecollection", "patch")),
    (GROUP, PLURAL, ("delete", "list", "watch")),
    (GROUP, f"{PLURAL}/status", ("patch",)),
)
"""API group, resource, verbs; in alphabetical order, so that none is missed or given twice."""

LEASE_RULES: Final[tuple[dict[str, list[str]], ...]] = (
    {"apiGroups": [lease.GROUP], "resources": ["leases"], "verbs": ["create"]},
    {"apiGroups": [lease.GROUP], "resources": ["leases"], "resourceNames": [NAME], "verbs": ["get", "update"]},
)
"""Of the controller's own namespace: a name cannot be given to a right to create."""


def cluster_role() -> dict[str, Any]:
    """Return the ClusterRole with exactly the calls that the controller makes."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/name": NAME}},
        "rules": [{"apiGroups": [g], "resources": [r], "verbs": list(v)} for g, r, v in RULES],
    }


def lease_role() -> dict[str, Any]:
    """Return the Role for the election."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/name": NAME}},
        "rules": list(LEASE_RULES),
    }
