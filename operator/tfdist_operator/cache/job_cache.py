"""The cache of TFDistJobs. A small specification is parsed once for every generation, a large one for each plan."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from pydantic_core import from_json, to_json

from tfdist.api.policies import is_foreign
from tfdist.api.resource import API_VERSION, KIND
from tfdist.api.status import JobPhase, TFDistJobStatus
from tfdist.api.sweep_resource import SUSPENDED_BY_SWEEP, SWEEP_API_VERSION, SWEEP_KIND
from tfdist.api.v1 import TFDistJob, label_strings
from tfdist.observed.job_view import DirectoryUser, StoredJob
from tfdist.outcome import read_status_json
from tfdist.planner.directory_in_use import has_begun
from tfdist.render.written_directories import StorageLocation, WrittenDirectory
from tfdist.validation.structure import MAX_SPEC_BYTES
from tfdist_operator.cache.resource_cache import Name, OnChange, Raw, ResourceCache, ignore_changes
from tfdist_operator.cache.specifications import (
    OlderSpecifications,
    ParsedSpecification,
    SpecificationReader,
    restart_request,
)
from tfdist_operator.cache.written_directories import Rank, WrittenDirectories
from tfdist_operator.kube.keys import NamespacedName

_TERMINAL: Final = frozenset({JobPhase.SUCCEEDED, JobPhase.FAILED})


@dataclass(frozen=True, slots=True)
class OwningSweep:
    """The sweep that a job is a trial of."""

    key: NamespacedName
    uid: str
    suspended_job: bool
    """Whether the sweep has suspended the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedJob(StoredJob):
    """One job of the cache, with its identity and version.

    Its status is kept as JSON, which takes a tenth of the memory of the model, and is read for each plan (ADR 51). So
    is a large specification: until `JobCache.read`, `job` and what follows from it are absent.
    """

    api_version: ClassVar = API_VERSION
    kind: ClassVar = KIND

    key: NamespacedName
    uid: str
    resource_version: int
    status_json: bytes
    phase: JobPhase | None = None
    """`status.phase`; None also for one of a newer version."""
    created_at: str = ""
    """RFC 3339."""
    suspended: bool = False
    """`runPolicy.suspend`, also of an invalid job."""
    large: bytes = b""
    """A large specification that has not been read, as JSON with its metadata; b"" for any other."""
    older_texts: OlderSpecifications = field(default_factory=dict)
    """As `older`, with the specifications that have not been read."""
    written: tuple[WrittenDirectory, ...] = ()
    """The directories that it writes; none if the job is invalid."""
    written_known: bool = True
    """Whether `written` belongs to this generation: a large specification is read later."""
    sweep: OwningSweep | None = None
    """The sweep that owns it."""
    settled: bool = False
    """Whether this version is a write of this process from which no action follows."""

    @property
    def status(self) -> TFDistJobStatus:
        """The stored status, read at each access."""
        return read_status_json(self.status_json)

    def is_older_than(self, other: "CachedJob") -> bool:
        """Return whether it was created before another job; the UIDs decide between jobs of the same second."""
        return (self.created_at, self.uid) < (other.created_at, other.uid)


class JobCache(ResourceCache[CachedJob]):
    """Jobs by key. kopf passes no bookmarks to handlers: tombstones reject stale versions of deleted jobs.

    Args:
        pod_defaults: the installation's defaults of the pods of all jobs.
        check_programs: whether the default image has only the bundled programs.
        max_spec_bytes: size as JSON of the largest valid specification.
        on_change: called with the key of a job that has changed.
        on_trial_change: called with the key of the sweep that owns a job that has changed.
        clock: monotonic, in seconds.
    """

    def __init__(
        self,
        pod_defaults: Raw | None = None,
        *,
        check_programs: bool = True,
        max_spec_bytes: int = MAX_SPEC_BYTES,
        on_change: OnChange = ignore_changes,
        on_trial_change: OnChange = ignore_changes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(on_change, clock)
        self._reader = SpecificationReader(pod_defaults or {}, check_programs=check_programs, max_bytes=max_spec_bytes)
        self._on_trial_change = on_trial_change
        self.directories = WrittenDirectories(self._rank, self._on_change)
        self._unlocated: set[NamespacedName] = set()
        self._begun: dict[NamespacedName, tuple[str, int, bool]] = {}
        """UID, version, and whether training has begun, of jobs that share a directory."""

    def all(self) -> list[CachedJob]:
        """Return every job."""
        return [job for _, job in self._objects.values()]

    def read(self, job: CachedJob) -> CachedJob:
        """Return a job with its specification, which is parsed now if it is large. Called by one thread at a time."""
        if job.large:
            read = self._reader.read_large(job.large, from_json(job.status_json))
            job = replace(job, large=b"", written_known=True, **_fields(read))
        if job.older_texts:
            job = replace(job, older=self._reader.read_older(job.older_texts), older_texts={})
        return job

    def locate(self, job: CachedJob) -> None:
        """Store the directories of a job that `read` has returned, unless it has a newer specification."""
        cached = self.get(job.key)
        # The job has changed while the thread has read it.
        if cached is None or (cached.uid, cached.generation) != (job.uid, job.generation):
            return
        located = replace(cached, written=job.written, written_known=True)
        self._objects[job.key] = job.key, located
        self._index(cached, located)

    def unlocated_jobs(self, namespace: str) -> list[CachedJob]:
        """Return the jobs of a namespace whose directories are not known."""
        return [job for key in self._unlocated if key.namespace == namespace and (job := self.get(key))]

    def directory_user(self, job: CachedJob) -> DirectoryUser | None:
        """Return the job that comes first in a directory of this one; None if that is this job in all of them."""
        for written in job.written:
            first = self.directories.first(job.key, written.location)
            other = self.get(first) if first is not None else None
            if other is not None:
                field = next(directory.field for directory in other.written if directory.location == written.location)
                return DirectoryUser(other.key.name, field, written)
        return None

    def _rank(self, key: NamespacedName) -> Rank | None:
        """Return the rank of a job in its directories; None if it has ended or may not begin."""
        job = self.get(key)
        if job is None or job.phase in _TERMINAL or is_foreign(job.managed_by):
            return None
        begun = self._has_begun(job)
        # A job that is to be suspended counts until its pods have ended; one that has not begun writes nothing.
        return None if job.suspended and not begun else (not begun, job.created_at, job.uid)

    def _has_begun(self, job: CachedJob) -> bool:
        """Return whether the training of a job has begun; each version is read once."""
        known = self._begun.get(job.key)
        if known is None or known[:2] != (job.uid, job.resource_version):
            known = self._begun[job.key] = job.uid, job.resource_version, has_begun(job.status)
        return known[2]

    def on_update(self, raw: Raw) -> None:
        """Store a job from kopf's event, and report the change.

        The event of a write of this process repeats a cached version. It is reported too, because the next action may
        follow from the write, unless the plan has said that none does.
        """
        meta = raw["metadata"]
        key = NamespacedName(meta["namespace"], meta["name"])
        self._store(raw)
        cached = self.get(key)
        # A plan per poll that writes counters, and one per start of a job, would find nothing to do.
        if cached is None or not cached.settled:
            self._on_change(key)
        self._report_trial(cached)

    def write_through(self, raw: Raw, *, settled: bool = False) -> None:
        """Store the response to a write of this process, and report no change: a reconcile made it.

        Raises:
            KeyError, TypeError, ValueError: the response lacks the metadata of an object.
        """
        key = self._store(raw)
        if key is not None and settled:
            self._objects[key] = key, replace(self._objects[key][1], settled=True)
        self._report_trial(self.get(key) if key else None)

    def evict(self, job: CachedJob) -> None:
        """Remove a job for which a request got 404, unless another of its name has been created since.

        A version up to the cached one does not restore it.
        """
        cached = self.get(job.key)
        if cached is not None and cached.uid == job.uid:
            del self._objects[job.key]
            self._on_removed(job.key, job.key, cached, None)
            # A version that the watch delivers late does not restore the job.
            self._add_tombstone(cached.uid, cached.resource_version)

    def _report_trial(self, job: CachedJob | None) -> None:
        if job is not None and job.sweep is not None:
            self._on_trial_change(job.sweep.key)

    def _store(self, raw: Raw) -> NamespacedName | None:
        meta = raw["metadata"]
        before = self.get((meta["namespace"], meta["name"]))
        key = super()._store(raw)
        after = self.get(key) if key else None
        if after is not None:
            self._index(before if before is not None and before.uid == after.uid else None, after)
        return key

    def _on_removed(self, _: Name, key: NamespacedName, removed: CachedJob, _successor: CachedJob | None) -> None:
        self._report_trial(removed)
        self._index(removed, None)  # a successor is not stored yet
        self._begun.pop(key, None)

    def _index(self, before: CachedJob | None, after: CachedJob | None) -> None:
        """Update the indexes after a change."""
        key = (after or before).key  # type: ignore[union-attr]  # at least one of them is a job
        (self._unlocated.discard if after is None or after.written_known else self._unlocated.add)(key)
        self.directories.move(key, _locations(before), _locations(after))

    def _parse(self, raw: Raw) -> tuple[NamespacedName, CachedJob]:
        meta = raw["metadata"]
        key = NamespacedName(meta["namespace"], meta["name"])
        previous, status = self.get(key), raw.get("status") or {}
        # Another job of the same name: nothing of the former may be kept for it.
        if previous is not None and previous.uid != meta["uid"]:
            previous = None
        older = self._reader.older_specifications(raw, _specifications(previous))
        job = CachedJob(
            key=key,
            name=key.name,
            uid=meta["uid"],
            resource_version=int(meta["resourceVersion"]),
            generation=meta["generation"],
            status_json=to_json(status),
            phase=_phase(status.get("phase")),
            deleting="deletionTimestamp" in meta,
            managed_by=_text(_run_policy(raw).get("managedBy")),
            suspended=_run_policy(raw).get("suspend") is True,
            created_at=meta.get("creationTimestamp", ""),
            older={number: spec for number, spec in older.items() if not isinstance(spec, bytes)},
            older_texts=older if any(isinstance(spec, bytes) for spec in older.values()) else {},
            restarted_at=restart_request(raw),
            sweep=_owning_sweep(meta),
            **self._specification(raw, previous),
        )
        return key, job

    def _specification(self, raw: Raw, previous: CachedJob | None) -> dict[str, Any]:
        """Return the fields of the specification: read now, before for the same generation, or later if it is large."""
        meta = raw["metadata"]
        # A specification changes only with the generation: events of the status do not parse it again.
        known = previous if previous is not None and previous.generation == meta["generation"] else None
        if known is not None and not known.large:
            labelled = _with_labels(known.job, meta), _with_labels(known.partial, meta)
            return _fields(known) | {"job": labelled[0], "partial": labelled[1]}
        text = self._reader.large_json(raw)
        if not text:
            return _fields(self._reader.read(raw))
        writes = "checkpoint" in raw["spec"]  # without which it exports nothing either
        return {
            "job": None,
            "problems": (),
            "large": text,
            # Those of the former generation count until the new specification is read (ADR 31).
            "written": previous.written if previous is not None and writes else (),
            "written_known": not writes or (known is not None and known.written_known),
        }


def _fields(read: CachedJob | ParsedSpecification) -> dict[str, Any]:
    """Return the fields of a job that follow from its parsed specification."""
    return {
        "job": read.job,
        "problems": read.problems,
        "warnings": read.warnings,
        "template": read.template,
        "partial": read.partial,
        "written": read.written,
    }


def _locations(job: CachedJob | None) -> set[StorageLocation]:
    return {written.location for written in job.written} if job is not None else set()


def _phase(stored: Any) -> JobPhase | None:
    try:
        return JobPhase(stored)
    except ValueError:
        return None


def _with_labels(job: TFDistJob | None, meta: Raw) -> TFDistJob | None:
    """Return the job with the current labels, which change without a new generation."""
    labels = label_strings(meta.get("labels"))
    if job is None or labels == job.metadata.labels:
        return job
    return job.model_copy(update={"metadata": job.metadata.model_copy(update={"labels": labels})})


def _owning_sweep(meta: Raw) -> OwningSweep | None:
    """Return the sweep in the controller reference of a job."""
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller") and (owner["apiVersion"], owner["kind"]) == (SWEEP_API_VERSION, SWEEP_KIND):
            by_sweep = SUSPENDED_BY_SWEEP in (meta.get("annotations") or {})
            return OwningSweep(NamespacedName(meta["namespace"], owner["name"]), owner["uid"], by_sweep)
    return None


def _specifications(previous: CachedJob | None) -> OlderSpecifications:
    """Return the valid specifications of a job that this process has observed, by generation."""
    if previous is None:
        return {}
    newest = previous.job or previous.large
    return {**(previous.older_texts or previous.older), **({previous.generation: newest} if newest else {})}


def _run_policy(raw: Raw) -> Raw:
    """Return `runPolicy` of a specification, whose content may be anything."""
    spec = raw.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, Mapping) else None
    return policy if isinstance(policy, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
