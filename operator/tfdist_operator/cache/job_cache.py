"""The cache of TFDistJobs, each parsed once for every generation of its specification."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pydantic_core import to_json

from tfdist.api.policies import is_foreign
from tfdist.api.resource import API_VERSION, KIND
from tfdist.api.status import JobPhase, TFDistJobStatus
from tfdist.api.sweep_resource import SUSPENDED_BY_SWEEP, SWEEP_API_VERSION, SWEEP_KIND
from tfdist.api.v1 import TFDistJob, label_strings
from tfdist.observed.job_view import DirectoryUser, StoredJob
from tfdist.outcome import read_status_json
from tfdist.render.checkpoint_location import CheckpointLocation, checkpoint_location
from tfdist.render.fingerprint import fingerprint
from tfdist.validation import FieldError, parse, warnings
from tfdist_operator.cache.manifests import parsed
from tfdist_operator.cache.object_cache import Name, ObjectCache, OnChange, Raw, ignore_changes
from tfdist_operator.cache.specifications import older_specifications, partial, restart_request
from tfdist_operator.kube.keys import NamespacedName

log = logging.getLogger(__name__)


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

    Its status is kept as JSON, which takes a tenth of the memory of the model, and is read for each plan (ADR 51).
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
    location: CheckpointLocation | None = None
    """Where it writes checkpoints; None for an invalid job, too."""
    sweep: OwningSweep | None = None
    """The sweep that owns it."""
    counters_only: bool = False
    """Whether this version is a write of this process that changed only counters of the status."""

    @property
    def status(self) -> TFDistJobStatus:
        """The stored status, read at each access."""
        return read_status_json(self.status_json)

    def is_older_than(self, other: "CachedJob") -> bool:
        """Return whether it was created before another job; the UIDs decide between jobs of the same second."""
        return (self.created_at, self.uid) < (other.created_at, other.uid)


class JobCache(ObjectCache[CachedJob]):
    """Jobs by key. kopf passes no bookmarks to handlers: tombstones reject stale versions of deleted jobs.

    Args:
        pod_defaults: the installation's defaults of the pods of all jobs.
        check_programs: whether the default image has only the bundled programs.
        on_change: called with the key of a job that has changed.
        on_trial_change: called with the key of the sweep that owns a job that has changed.
        clock: monotonic, in seconds.
    """

    def __init__(
        self,
        pod_defaults: Raw | None = None,
        *,
        check_programs: bool = True,
        on_change: OnChange = ignore_changes,
        on_trial_change: OnChange = ignore_changes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(on_change, clock)
        self._pod_defaults = pod_defaults or {}
        self._check_programs = check_programs
        self._on_trial_change = on_trial_change
        self._by_location: dict[tuple[str, CheckpointLocation], set[Name]] = {}
        """Names by namespace and location: every job there, and some whose specification has changed since."""

    def all(self) -> list[CachedJob]:
        """Return every job."""
        return [job for _, job in self._objects.values()]

    def directory_users(self, job: CachedJob) -> tuple[DirectoryUser, ...]:
        """Return the other jobs that write checkpoints where this one does; jobs of other controllers do not count."""
        if job.location is None:
            return ()
        names = sorted(self._by_location.get((job.key.namespace, job.location), ()))
        others = (other for other in map(self.get, names) if other and other.uid != job.uid)
        return tuple(
            DirectoryUser(
                name=other.key.name,
                status=other.status,
                suspended=other.job is not None and other.job.spec.run_policy.suspend,
                is_older=other.is_older_than(job),
            )
            for other in others
            if other.location == job.location and not is_foreign(other.managed_by)
        )

    def on_update(self, raw: Raw) -> None:
        """Store a job from kopf's event, and report the change.

        The event of a write of this process repeats a cached version. It is reported too, because the next action may
        follow from the write; one of counters alone is not.
        """
        meta = raw["metadata"]
        key = NamespacedName(meta["namespace"], meta["name"])
        self._store(raw)
        cached = self.get(key)
        if cached is None or not cached.counters_only:
            self._on_change(key)
        self._report_trial(cached)

    def write_through(self, raw: Raw, *, counters_only: bool = False) -> None:
        """Store the response to a write of this process, and report no change: a reconcile made it.

        Raises:
            KeyError, TypeError, ValueError: the response lacks the metadata of an object.
        """
        key = self._store(raw)
        if key is not None and counters_only:
            self._objects[key] = key, replace(self._objects[key][1], counters_only=True)
        self._report_trial(self.get(key) if key else None)

    def evict(self, job: CachedJob) -> None:
        """Remove a job for which a request got 404, unless another of its name has been created since.

        A version up to the cached one does not restore it.
        """
        cached = self.get(job.key)
        if cached is not None and cached.uid == job.uid:
            del self._objects[job.key]
            self._on_removed(job.key, job.key, cached, None)
            self._bury(cached.uid, cached.resource_version)

    def _report_trial(self, job: CachedJob | None) -> None:
        if job is not None and job.sweep is not None:
            self._on_trial_change(job.sweep.key)

    def _on_removed(self, name: Name, key: NamespacedName, removed: CachedJob, successor: CachedJob | None) -> None:
        self._report_trial(removed)
        if removed.location is None or (successor is not None and successor.location == removed.location):
            return
        names = self._by_location.get((key.namespace, removed.location), set())
        names.discard(name)
        if not names:
            self._by_location.pop((key.namespace, removed.location), None)

    def _parse(self, raw: Raw) -> tuple[NamespacedName, CachedJob]:
        meta = raw["metadata"]
        key = NamespacedName(meta["namespace"], meta["name"])
        previous, status = self.get(key), raw.get("status") or {}
        if previous is not None and (previous.uid, previous.generation) == (meta["uid"], meta["generation"]):
            job, problems, template = _with_labels(previous.job, meta), previous.problems, previous.template
            manager, valid, location = previous.managed_by, _with_labels(previous.partial, meta), previous.location
            found = previous.warnings
        else:
            job, problems = parsed(self._read, raw, "job")
            template = fingerprint(job) if job else ""
            manager, valid = _managed_by(raw), None if job else partial(raw, problems)
            location = checkpoint_location(job) if job else None
            found = self._warnings(job) if job else ()
        if location is not None:
            self._by_location.setdefault((key.namespace, location), set()).add(key)
        return key, CachedJob(
            key=key,
            name=key.name,
            uid=meta["uid"],
            resource_version=int(meta["resourceVersion"]),
            generation=meta["generation"],
            job=job,
            problems=problems,
            warnings=found,
            status_json=to_json(status),
            phase=_phase(status.get("phase")),
            deleting="deletionTimestamp" in meta,
            managed_by=manager,
            template=template,
            created_at=meta.get("creationTimestamp", ""),
            older=older_specifications(raw, _specifications(previous, meta["uid"]), self._pod_defaults),
            partial=valid,
            restarted_at=restart_request(raw),
            location=location,
            sweep=_owning_sweep(meta),
        )

    def _read(self, raw: Raw) -> TFDistJob:
        return parse(raw, self._pod_defaults, programs=self._check_programs)

    def _warnings(self, job: TFDistJob) -> tuple[FieldError, ...]:
        """Return the warnings about a valid job; an exception in the checks must not keep it from running."""
        try:
            return tuple(warnings(job, self._pod_defaults, programs=self._check_programs))
        except Exception:
            log.exception("warnings about a job cannot be computed", extra={"job": job.metadata.name})
            return ()


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


def _specifications(previous: CachedJob | None, uid: str) -> Mapping[int, TFDistJob]:
    """Return the valid specifications of a job that this process has observed, by generation."""
    if previous is None or previous.uid != uid:
        return {}
    return {**previous.older, previous.generation: previous.job} if previous.job else previous.older


def _managed_by(raw: Mapping[str, Any]) -> str | None:
    """Return `runPolicy.managedBy` of a specification of any content."""
    spec = raw.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, Mapping) else None
    manager = policy.get("managedBy") if isinstance(policy, Mapping) else None
    return manager if isinstance(manager, str) else None
