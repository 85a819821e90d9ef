"""The kinds of objects that jobs own in addition to pods and Secrets.

Caches, watches, requests and the controller's role follow from this table. A new gang scheduler adds its kind to it by
its entry in the table of gang schedulers.
"""

from collections.abc import Mapping
from typing import Any, Final

from tfdist.render.owned_kind import OwnedKind
from tfdist.scheduling.choice import GANG_SCHEDULERS

SERVICE: Final = OwnedKind("v1", "Service", "services")
NETWORK_POLICY: Final = OwnedKind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
DEPLOYMENT: Final = OwnedKind("apps/v1", "Deployment", "deployments")
POD_GROUPS: Final = {system: scheduler.kind for system, scheduler in GANG_SCHEDULERS.items()}
"""The kind of PodGroups of each gang scheduler."""

OWNED_KINDS: Final = (SERVICE, NETWORK_POLICY, DEPLOYMENT, *POD_GROUPS.values())
"""Every kind, in the order of creation."""

_BY_NAME: Final = {(kind.api_version, kind.kind): kind for kind in OWNED_KINDS}


def kind_of(manifest: Mapping[str, Any]) -> OwnedKind:
    """Return the kind of a manifest of an owned object.

    Raises:
        KeyError: the controller owns no objects of that kind.
    """
    return _BY_NAME[manifest["apiVersion"], manifest["kind"]]
