"""What every object of the API server has, metadata and a specification, and what jobs and sweeps have in common."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

_FINAL: Final = frozenset({"Succeeded", "Failed"})
_FINISHED: Final = _FINAL | {"Invalid"}


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


class _Status(Protocol):
    @property
    def observed_generation(self) -> int | None: ...


@dataclass(frozen=True)
class Workload(StoredObject, ABC):
    """A job or a sweep: an object that runs, and whose status has a phase."""

    @property
    @abstractmethod
    def status(self) -> _Status:
        """The status. Fields that this version does not know are left out."""

    @property
    @abstractmethod
    def phase(self) -> str:
        """The phase; Pending before the controller has seen the object."""

    @property
    @abstractmethod
    def message(self) -> str:
        """The reason of the phase, or what the object waits for."""

    @property
    @abstractmethod
    def loss(self) -> str:
        """What is lost when the replicas end now, because there are no checkpoints; "" if nothing known is lost."""

    @property
    def is_current(self) -> bool:
        """Whether the status describes the stored specification."""
        return self.status.observed_generation == self.generation

    @property
    def is_final(self) -> bool:
        """Whether the phase never changes again."""
        return self.phase in _FINAL

    @property
    def is_finished(self) -> bool:
        """Whether it has ended. An invalid object can be corrected, but does nothing until then."""
        return self.phase in _FINISHED and self.is_current

    def has_reached(self, phases: Collection[str]) -> bool:
        """Return whether the stored specification has led to one of `phases`."""
        return self.phase in phases and self.is_current
