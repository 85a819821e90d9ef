"""The controller's rights in the cluster: one list, from which its role is generated.

The integration tests run the controller under exactly this role.
"""

from typing import Any, Final

from tfdist.api.resource import GROUP, PLURAL
from tfdist.api.sweep_resource import SWEEP_PLURAL
from tfdist.desired.owned_kinds import OWNED_KINDS
from tfdist.scheduling.choice import QUEUES
from tfdist_operator.leader_election import lease_lock

NAME: Final = "tfdist-controller"
NAMESPACE: Final = "tfdist-system"

_OWNED: Final = ("create", "delete", "list", "patch", "watch")
_RULES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("", "events", ("create", "list")),
    ("", "pods", _OWNED),
    ("", "secrets", ("create",)),
    *((kind.group, kind.plural, _OWNED) for kind in OWNED_KINDS),
    *(rule for queue in QUEUES.values() for rule in queue.rules),
    (GROUP, PLURAL, _OWNED),  # sweeps create jobs, and suspend and resume them
    (GROUP, f"{PLURAL}/status", ("patch",)),
    (GROUP, SWEEP_PLURAL, ("delete", "list", "watch")),
    (GROUP, f"{SWEEP_PLURAL}/status", ("patch",)),
)
RULES: Final = tuple(sorted(_RULES))
"""API group, resource and verbs, sorted so that a missing or repeated one is easy to see."""

VIEW_VERBS: Final = ("get", "list", "watch")
"""Verbs of the view role for jobs and sweeps."""
EDIT_VERBS: Final = ("create", "delete", "deletecollection", "patch", "update")
"""Additional verbs of the edit role."""

Rules = list[dict[str, Any]]


def job_rules() -> Rules:
    """Return the rules for the namespaces in which the controller acts."""
    return [{"apiGroups": [g], "resources": [r], "verbs": list(v)} for g, r, v in RULES]


def lease_rules(name: str) -> Rules:
    """Return the rules for the election in the controller's own namespace, by the Lease of that name."""
    return [  # a name cannot be given to a right to create
        {"apiGroups": [lease_lock.GROUP], "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": [lease_lock.GROUP], "resources": ["leases"], "resourceNames": [name], "verbs": ["get", "update"]},
    ]


def webhook_rules(name: str) -> Rules:
    """Return the rules for the certificate of the admission webhook, in the Secret of that name."""
    return [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [name], "verbs": ["get", "update"]}]


def webhook_configuration_rules(name: str) -> Rules:
    """Return the rules for the webhook's authority, in the configuration of that name."""
    group, kind = "admissionregistration.k8s.io", "validatingwebhookconfigurations"
    return [{"apiGroups": [group], "resources": [kind], "resourceNames": [name], "verbs": ["get", "patch"]}]


def user_rules(verbs: tuple[str, ...]) -> Rules:
    """Return the rules for people; the status is the controller's to write, and theirs to read with its object."""
    resources = [PLURAL, f"{PLURAL}/scale", SWEEP_PLURAL]
    if verbs != EDIT_VERBS:
        resources += [f"{PLURAL}/status", f"{SWEEP_PLURAL}/status"]
    return [{"apiGroups": [GROUP], "resources": resources, "verbs": list(verbs)}]


def cluster_role() -> dict[str, Any]:
    """Return the ClusterRole with exactly the calls that the controller makes."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/name": NAME}},
        "rules": job_rules(),
    }


def lease_role() -> dict[str, Any]:
    """Return the Role for the election."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/name": NAME}},
        "rules": lease_rules(NAME),
    }
