"""A cache of one kind of objects, as client-go's informer cache: watches feed it, and write responses go through it.

Events and responses arrive in any order. A version is stale if the cache has observed the same or a later one: of the
object, of its deletion (a tombstone of its UID), or as the watermark of the watch.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, Generic, Protocol, TypeVar

from tfdist_operator.kube.keys import ALL_NAMESPACES, NamespacedName

Raw = Mapping[str, Any]
Name = tuple[str, str]
"""Namespace and name of an object."""
OnChange = Callable[[NamespacedName], None]

_TOMBSTONE_SECONDS: Final = 600.0
"""How long a tombstone is kept: far longer than a request may take."""


class CachedObject(Protocol):
    """One cached object."""

    @property
    def uid(self) -> str:
        """Its UID."""

    @property
    def resource_version(self) -> int:
        """Its resource version."""


T = TypeVar("T", bound=CachedObject)


def ignore_changes(_: NamespacedName) -> None:
    """Handle no change."""


class ResourceCache(ABC, Generic[T]):
    """Objects by namespace and name; a `ResourceEventHandler` of an informer.

    Args:
        on_change: called with the key of the job whose object has changed.
        clock: monotonic, in seconds.
    """

    def __init__(self, on_change: OnChange = ignore_changes, clock: Callable[[], float] = time.monotonic) -> None:
        self._on_change = on_change
        self._clock = clock
        self._objects: dict[Name, tuple[NamespacedName, T]] = {}
        """Key of its job, and the object."""
        self._watermarks: dict[str, int] = {}
        """The version up to which the watch has delivered, by namespace or `ALL_NAMESPACES`."""
        self._tombstones: dict[str, tuple[int, float]] = {}
        """Version and time of each deletion by UID, oldest first."""

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, name: Name) -> T | None:
        """Return the object with this namespace and name."""
        entry = self._objects.get(name)
        return entry[1] if entry is not None else None

    def versions(self, namespace: str = ALL_NAMESPACES) -> dict[str, int]:
        """Return the resource version of every object of a namespace, or of all, by UID."""
        return {item.uid: item.resource_version for _, item in self._in(namespace)}

    def upsert(self, raw: Raw) -> None:
        """Store an object from a response, unless it is stale.

        Raises:
            KeyError, TypeError, ValueError: it is not an object of this cache.
        """
        # A response may arrive after the events of a later change and of the deletion. What the watch has delivered
        # decides, also of objects that the cache has never held.
        if not self._is_covered(raw["metadata"]):
            self._add(raw)

    def on_update(self, raw: Raw) -> None:
        """Store an object from the watch or a list: it is new or has changed.

        Raises:
            KeyError, TypeError, ValueError: as `upsert`.
        """
        self._add(raw)

    def on_delete(self, raw: Raw) -> None:
        """Remove an object that the watch reports as deleted, unless another of its name has been created since."""
        meta = raw["metadata"]
        self._delete((meta["namespace"], meta["name"]), meta["uid"], int(meta["resourceVersion"]))

    def replace(self, uids: AbstractSet[str], version: int, namespace: str = ALL_NAMESPACES) -> None:
        """Remove the objects that a list of `namespace` at `version` lacks, unless they were created since."""
        for name, item in list(self._in(namespace)):
            # An object with a later version was created or changed after the list was made.
            if item.uid not in uids and item.resource_version <= version:
                self._delete(name, item.uid, version)

    def on_bookmark(self, version: int, namespace: str = ALL_NAMESPACES) -> None:
        """Advance the watermark of the watch of a namespace, or of all."""
        self._watermarks[namespace] = version

    @abstractmethod
    def _parse(self, raw: Raw) -> tuple[NamespacedName, T]:
        """Return the key of an object's job, and the object as it is cached."""

    def _on_removed(self, name: Name, key: NamespacedName, removed: T, successor: T | None) -> None:
        """Update the indexes of a subclass: an object is removed, or its successor has another UID or job."""

    def _report_removal(self, key: NamespacedName, removed: T) -> None:  # noqa: ARG002  a subclass may look at it
        """Report that an object of a job is gone."""
        self._on_change(key)

    def _in(self, namespace: str) -> Iterator[tuple[Name, T]]:
        entries = self._objects.items()
        return ((name, item) for name, (_, item) in entries if namespace in {ALL_NAMESPACES, name[0]})

    def _add(self, raw: Raw) -> None:
        if (key := self._store(raw)) is not None:
            self._on_change(key)

    def _store(self, raw: Raw) -> NamespacedName | None:
        """Store an object and return the key of its job; None if the version is stale."""
        meta = raw["metadata"]
        name: Name = (meta["namespace"], meta["name"])
        version, cached = int(meta["resourceVersion"]), self._objects.get(name)
        # Versions may be compared as numbers: Kubernetes documents that since 1.35 (KEP-5504, ADR 3).
        if cached is not None and cached[1].resource_version >= version:
            return None
        # Without tombstones, a late response to a write would restore a deleted object (ADR 10).
        if version <= self._tombstones.get(meta["uid"], (-1, 0.0))[0]:
            return None
        entry = self._parse(raw)
        if cached is not None and (cached[0], cached[1].uid) != (entry[0], entry[1].uid):
            self._on_removed(name, *cached, entry[1])
            # Its labels name another job now: the former job has lost it.
            if cached[0] != entry[0]:
                self._on_change(cached[0])
        self._objects[name] = entry
        return entry[0]

    def _is_covered(self, meta: Raw) -> bool:
        """Return whether the watch has delivered everything up to the version of an object."""
        watermark = self._watermarks.get(meta["namespace"], self._watermarks.get(ALL_NAMESPACES, 0))
        return int(meta["resourceVersion"]) <= watermark

    def _delete(self, name: Name, uid: str, version: int) -> None:
        cached = self._objects.get(name)
        if cached is not None and cached[1].uid == uid:
            self._remove(name)
        self._add_tombstone(uid, version)

    def _remove(self, name: Name) -> None:
        """Remove an object if it is cached, and report the change."""
        entry = self._objects.pop(name, None)
        if entry is not None:
            self._on_removed(name, *entry, None)
            self._report_removal(*entry)

    def _add_tombstone(self, uid: str, version: int) -> None:
        """Keep a tombstone, and drop those that have expired."""
        now = self._clock()
        # They are sorted by time, so that only those that have expired are visited.
        while self._tombstones:
            oldest = next(iter(self._tombstones))
            if now - self._tombstones[oldest][1] <= _TOMBSTONE_SECONDS:
                break
            del self._tombstones[oldest]
        # Removed and inserted again, so that the order by time is kept.
        version = max(version, self._tombstones.pop(uid, (version, now))[0])
        self._tombstones[uid] = version, now
