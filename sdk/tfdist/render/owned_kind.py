"""A kind of objects that jobs own. It is more than its name, because `PodGroup` exists in several API groups."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class OwnedKind:
    """A kind of objects that jobs own."""

    api_version: str
    """API group and version, such as `apps/v1`."""
    kind: str
    plural: str
    optional: bool = False
    """Whether an API server may lack it; its scheduler also writes such objects."""

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


def pod_group_kind(api_version: str) -> OwnedKind:
    """Return the kind of a gang scheduler's PodGroups in an API version."""
    return OwnedKind(api_version, "PodGroup", "podgroups", optional=True)
