"""What every object of the API server has: metadata and a specification."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StoredObject:
    """An object as the API server has it."""

    manifest: Mapping[str, Any]

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return str(self.manifest["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """`metadata.namespace`."""
        return str(self.manifest["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        """`metadata.uid`: another object of the same name has another one."""
        return str(self.manifest["metadata"]["uid"])

    @property
    def resource_version(self) -> str:
        """`metadata.resourceVersion`."""
        return str(self.manifest["metadata"]["resourceVersion"])

    @property
    def generation(self) -> int:
        """`metadata.generation`."""
        return int(self.manifest["metadata"]["generation"])

    @property
    def created(self) -> str:
        """`metadata.creationTimestamp`, RFC 3339."""
        return str(self.manifest["metadata"]["creationTimestamp"])

    @property
    def spec(self) -> Mapping[str, Any]:
        """The specification as stored."""
        return self.manifest.get("spec") or {}
