"""The TFDistJobs as last seen, each parsed once for every generation of its specification."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfdist.api.v1 import TFDistJob
from tfdist.render.fingerprint import fingerprint
from tfdist.validation import InvalidJob, Problem, parse
from tfdist_operator.kube.pod_store import Key
from tfdist_operator.kube.reached import Reached
from tfdist_operator.policy.unsupported import unsupported


@dataclass(frozen=True, slots=True)
class StoredJob:
    """One job: its identity and version, its parsed form or what is wrong with it, and its stored status."""

    key: Key
    uid: str
    resource_version: int
    generation: int
    job: TFDistJob | None
    problems: tuple[Problem, ...]
    status: Mapping[str, Any]
    deleting: bool
    managed_by: str | None = None
    """`runPolicy.managedBy`, known of an invalid job too."""
    template: str = ""
    """Fingerprint of what its pods are made of; "" for an invalid job."""
    created_at: str = ""
    """RFC 3339."""


class JobStore:
    """Jobs by key. The newest version wins, whether it came by the watch or as the answer to our own write.

    `pod_defaults` is what the installation puts below the pod templates of all jobs.
    """

    def __init__(self, pod_defaults: Mapping[str, Any] | None = None) -> None:
        self._pod_defaults = pod_defaults or {}
        self._jobs: dict[Key, StoredJob] = {}
        self.watched = Reached()

    def __len__(self) -> int:
        return len(self._jobs)

    def get(self, key: Key) -> StoredJob | None:
        """Return the job of that key."""
        return self._jobs.get(key)

    def all(self) -> list[StoredJob]:
        """Return every job."""
        return list(self._jobs.values())

    def put(self, raw: Mapping[str, Any]) -> Key:
        """Take in the answer to a write of our own, unless the watch has told of the job's deletion since."""
        meta = raw["metadata"]
        key = Key(meta["namespace"], meta["name"])
        passed = self.watched.has_passed(int(meta["resourceVersion"]), key.namespace)
        return key if passed else self.take(raw)

    def take(self, raw: Mapping[str, Any]) -> Key:
        """Take in a job as the API server gives it, unless what is known is newer; return its key."""
        meta = raw["metadata"]
        key = Key(meta["namespace"], meta["name"])
        known = self._jobs.get(key)
        version = int(meta["resourceVersion"])
        if known is not None and known.resource_version >= version:
            return key
        same_spec = known is not None and (known.uid, known.generation) == (meta["uid"], meta["generation"])
        job, problems = (known.job, known.problems) if known and same_spec else self._parsed(raw)
        status = raw.get("status") or {}
        deleting = "deletionTimestamp" in meta
        manager = known.managed_by if known and same_spec else _managed_by(raw)
        template = known.template if known and same_spec else fingerprint(job) if job else ""
        created = meta.get("creationTimestamp", "")
        self._jobs[key] = StoredJob(
            key, meta["uid"], version, meta["generation"], job, problems, status, deleting, manager, template, created
        )
        return key

    def remove(self, key: Key, uid: str) -> None:
        """Forget a job that is gone, unless another of its name has been made since."""
        known = self._jobs.get(key)
        if known is not None and known.uid == uid:
            del self._jobs[key]

    def _parsed(self, raw: Mapping[str, Any]) -> tuple[TFDistJob | None, tuple[Problem, ...]]:
        try:
            job = parse(raw, self._pod_defaults)
        except InvalidJob as error:
            return None, tuple(error.problems)
        ignored = unsupported(job)
        return (None, ignored) if ignored else (job, ())


def _managed_by(raw: Mapping[str, Any]) -> str | None:
    """Return who is to run the job; of a specification of any shape."""
    spec = raw.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, Mapping) else None
    manager = policy.get("managedBy") if isinstance(policy, Mapping) else None
    return manager if isinstance(manager, str) else None
