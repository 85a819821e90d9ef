"""The cache of the objects that jobs own in addition to pods, such as Services: their metadata.

Drift is detected without reading the content (ADR 21). A label of the controller holds the hash of the applied
specification; a change by another client shows as a generation, or as the resource version of a Service, other than
after the controller's last write.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import orjson

from tfdist.render import names
from tfdist.render.metadata import Manifest
from tfdist.render.owned_kind import OwnedKind
from tfdist_operator.cache.informer import Informer, WatchedResource
from tfdist_operator.cache.optional_api import is_served
from tfdist_operator.cache.resource_cache import Name, OnChange, Raw, ResourceCache
from tfdist_operator.cache.resync import CacheComparison
from tfdist_operator.kube.client import ApiClient
from tfdist_operator.kube.keys import NamespacedName

_HASH_DIGITS: Final = 16
_LONGEST_LABEL: Final = 63


class Drift(Enum):
    """How an object differs from the one that its job needs."""

    NONE = auto()
    MISSING = auto()
    OUTDATED = auto()
    """It was applied from another specification, or by an earlier process whose writes were not observed."""
    FOREIGN_CHANGE = auto()
    """Another client has changed it since this process wrote it."""


@dataclass(frozen=True, slots=True)
class OwnedObject:
    """One object, without its content."""

    key: NamespacedName
    """Key of the job in its labels."""
    name: str
    uid: str
    resource_version: int
    revision: int
    """Changes with the specification."""
    owner_uid: str
    """UID of the TFDistJob that owns it; "" without one."""
    labels: Mapping[str, str]
    deleting: bool

    def belongs_to(self, job_uid: str) -> bool:
        """Return whether the job owns it, or owned it before its owner reference was removed."""
        return job_uid == (self.owner_uid or self.labels.get(names.JOB_UID_LABEL))


def owned_object(raw: Raw, kind: OwnedKind) -> OwnedObject:
    """Return the summary of an object of a kind as the API server gives it.

    Raises:
        KeyError, TypeError, ValueError: it lacks metadata that the controller sets.
    """
    meta = raw["metadata"]
    labels = meta.get("labels") or {}
    version = int(meta["resourceVersion"])
    owners = [o["uid"] for o in meta.get("ownerReferences") or () if o.get("controller") and o["kind"] == "TFDistJob"]
    return OwnedObject(
        key=NamespacedName(meta["namespace"], labels.get(names.JOB_LABEL, "")),
        name=meta["name"],
        uid=meta["uid"],
        resource_version=version,
        # A Service has no generation, and only its authors write it. A PodGroup is written to by its scheduler, so that
        # no number shows a change by another client (ADR 21).
        revision=0 if kind.optional else int(meta.get("generation") or version),
        owner_uid=owners[0] if owners else "",
        labels=labels,
        deleting="deletionTimestamp" in meta,
    )


def stamp(manifest: Manifest, controller: str) -> Manifest:
    """Return a manifest with labels for the hash of its specification and for the controller that applies it."""
    digest = hashlib.sha256(orjson.dumps(manifest["spec"], option=orjson.OPT_SORT_KEYS)).hexdigest()[:_HASH_DIGITS]
    labels = manifest["metadata"]["labels"] | {names.SPEC_HASH_LABEL: digest, names.CONTROLLER_LABEL: controller}
    return manifest | {"metadata": manifest["metadata"] | {"labels": labels}}


def controller_label(namespace: str, name: str) -> str:
    """Return the label value of the controllers that share a Lease."""
    identity = f"{namespace}.{name}"
    if len(identity) <= _LONGEST_LABEL:
        return identity
    return f"{identity[: _LONGEST_LABEL - 9]}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


class OwnedObjectCache(ResourceCache[OwnedObject]):
    """The objects of one kind.

    `on_change` is called with the key of the job of an object that was deleted, or changed by another client.
    """

    def __init__(self, kind: OwnedKind, on_change: OnChange) -> None:
        super().__init__(on_change)
        self.kind = kind
        self._written: dict[str, int] = {}
        """Revision of this process's last write, by UID."""
        self._accepted: dict[str, int] = {}
        """Revision, by UID, of objects that existed before this process led and that no resync has verified yet."""
        self._accepts = True

    def drift(self, manifest: Manifest, job_uid: str) -> Drift:
        """Return how the object with the name of a stamped manifest differs from the manifest."""
        meta = manifest["metadata"]
        cached = self.get((meta["namespace"], meta["name"]))
        # An object of that name that belongs to another owner is not this one: its creation reports the conflict.
        if cached is None or not cached.belongs_to(job_uid):
            return Drift.MISSING
        if cached.deleting:
            return Drift.NONE  # it is created again once its deletion is reported
        matches = cached.owner_uid == job_uid and _without_author(meta["labels"]).items() <= cached.labels.items()
        written = self._written.get(cached.uid)
        # Not written by this process, so that its metadata does not show whether it is what the job needs. Objects from
        # before a takeover are accepted until the first resync: to patch all at once would cost two requests for each
        # running job (ADR 21).
        if written is None:
            is_own = cached.labels.get(names.CONTROLLER_LABEL) == meta["labels"][names.CONTROLLER_LABEL]
            accepted = self._accepted.get(cached.uid)
            if accepted is None or not is_own:
                return Drift.OUTDATED
            label_drift = Drift.NONE if matches else Drift.OUTDATED
            return label_drift if accepted == cached.revision else Drift.FOREIGN_CHANGE
        if written == cached.revision:
            has_same_hash = cached.labels.get(names.SPEC_HASH_LABEL) == meta["labels"][names.SPEC_HASH_LABEL]
            return Drift.NONE if matches else Drift.FOREIGN_CHANGE if has_same_hash else Drift.OUTDATED
        # Another controller that defines the object equally is left alone: both would write for ever (ADR 21).
        return Drift.NONE if matches and self.other_controller(manifest) else Drift.FOREIGN_CHANGE

    def other_controller(self, manifest: Manifest) -> str:
        """Return the other controller that has written the object of that name after this one; "" if there is none."""
        meta = manifest["metadata"]
        cached = self.get((meta["namespace"], meta["name"]))
        if cached is None or cached.uid not in self._written:
            return ""
        author = cached.labels.get(names.CONTROLLER_LABEL, "")
        return "" if author == meta["labels"][names.CONTROLLER_LABEL] else author

    def begin(self) -> None:
        """Switch to leading: an object that appears from now on and was not written by this process is outdated."""
        self._accepts = False

    def verify(self) -> None:
        """Mark the objects from before this process led as outdated: another client may have changed them then."""
        self._accepted.clear()

    def write_through(self, raw: Raw) -> None:
        """Store the response to a write of this process."""
        _, written = self._parse(raw)
        self._written[written.uid] = written.revision
        # The watch may have delivered a later change by another client, which the response must not hide.
        if not self._is_covered(raw["metadata"]):
            self._store(raw)

    def on_update(self, raw: Raw) -> None:
        """Store an object from the watch; an echo of a write of this process is not reported."""
        meta = raw["metadata"]
        name = (meta["namespace"], meta["name"])
        previous, key = self.get(name), self._store(raw)
        if key is None:
            return
        cached = self._objects[name][1]
        # Also a status update of a Deployment, which changes neither its generation nor its labels.
        if self._is_echo(cached) and _have_same_metadata(previous, cached):
            return
        self._on_change(key)

    def evict(self, removed: OwnedObject) -> None:
        """Remove an object that a request of this process has deleted."""
        name = (removed.key.namespace, removed.name)
        self._forget(removed.uid)
        if self.get(name) == removed:
            del self._objects[name]
            self._add_tombstone(removed.uid, removed.resource_version)

    def _parse(self, raw: Raw) -> tuple[NamespacedName, OwnedObject]:
        parsed = owned_object(raw, self.kind)
        return parsed.key, parsed

    def _store(self, raw: Raw) -> NamespacedName | None:
        key = super()._store(raw)
        if key is not None and self._accepts:
            stored = self._objects[key.namespace, raw["metadata"]["name"]][1]
            self._accepted[stored.uid] = stored.revision
        return key

    def _on_removed(
        self, _name: Name, _key: NamespacedName, removed: OwnedObject, successor: OwnedObject | None
    ) -> None:
        if successor is None or successor.uid != removed.uid:
            self._forget(removed.uid)

    def _is_echo(self, update: OwnedObject) -> bool:
        return self._written.get(update.uid, self._accepted.get(update.uid)) == update.revision

    def _forget(self, uid: str) -> None:
        self._written.pop(uid, None)
        self._accepted.pop(uid, None)


def _have_same_metadata(previous: OwnedObject | None, current: OwnedObject) -> bool:
    return previous is not None and (previous.labels, previous.owner_uid) == (current.labels, current.owner_uid)


def _without_author(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in labels.items() if name != names.CONTROLLER_LABEL}


def watch_owned(
    client: ApiClient, namespaces: Iterable[str], caches: Iterable[OwnedObjectCache]
) -> list[tuple[Informer, CacheComparison]]:
    """Return, for every kind and namespace, the informer of its cache, and how the cache is compared."""
    watches = []
    for cache in caches:
        for namespace in namespaces:
            kind = cache.kind
            watched = WatchedResource.for_kind(
                kind.path, kind.plural, namespace, names.POD_SELECTOR, metadata_only=True
            )
            informer = Informer(client, watched, cache)
            watches.append((informer, CacheComparison(watched, cache, informer.reconnect, periodic=True)))
    return watches


async def served_version(kind: OwnedKind, client: ApiClient) -> str:
    """Return the version that the controller writes if the API server serves it, else ""."""
    return kind.api_version if await is_served(client, kind.path, kind.plural) else ""
