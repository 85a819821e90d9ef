"""The kinds of objects that jobs own in addition to pods and Secrets.

Caches, watches, requests and the controller's role follow from this table: a new kind is one entry. A kind is more
than its name, because `PodGroup` exists in several API groups.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from tfdist.api.gang_system import GangSystem


@dataclass(frozen=True, slots=True, order=True)
class OwnedKind:
    """A kind of objects that jobs own."""

    api_version: str
    """API group and version, such as `apps/v1`."""
    kind: str
    plural: str
    system: GangSystem = GangSystem.NONE
    """The gang scheduler that has this kind; `NONE` for kinds that every API server serves."""

    @property
    def optional(self) -> bool:
        """Whether an API server may lack it; its scheduler also writes such objects."""
        return self.system is not GangSystem.NONE

    @property
    def group(self) -> str:
        """API group; "" for the core."""
        return self.api_version.rpartition("/")[0]

    @property
    def path(self) -> str:
        """Path of its group and version at the API server, without a leading slash."""
        return f"{'apis' if self.group else 'api'}/{self.api_version}"

    @property
    def resource(self) -> str:
        """Name of the resource with its group, such as `podgroups.scheduling.volcano.sh`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


SERVICE: Final = OwnedKind("v1", "Service", "services")
NETWORK_POLICY: Final = OwnedKind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
DEPLOYMENT: Final = OwnedKind("apps/v1", "Deployment", "deployments")
POD_GROUPS: Final[Mapping[GangSystem, OwnedKind]] = MappingProxyType(
    {
        kind.system: kind
        for kind in (
            OwnedKind("scheduling.k8s.io/v1beta1", "PodGroup", "podgroups", GangSystem.NATIVE),
            OwnedKind("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups", GangSystem.VOLCANO),
            OwnedKind("scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups", GangSystem.COSCHEDULING),
        )
    }
)
"""The kind of PodGroup of each gang scheduler that has one."""

OWNED_KINDS: Final = (SERVICE, NETWORK_POLICY, DEPLOYMENT, *POD_GROUPS.values())
"""Every kind, in the order of creation."""

_BY_NAME: Final = {(kind.api_version, kind.kind): kind for kind in OWNED_KINDS}


def kind_of(manifest: Mapping[str, Any]) -> OwnedKind:
    """Return the kind of a manifest of an owned object.

    Raises:
        KeyError: the controller owns no objects of that kind.
    """
    return _BY_NAME[manifest["apiVersion"], manifest["kind"]]
