"""The cache of TFDistSweeps, each parsed once for every generation of its specification."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tfdist.api.sweep import TFDistSweep
from tfdist.api.sweep_resource import SWEEP_API_VERSION, SWEEP_KIND
from tfdist.api.sweep_status import TFDistSweepStatus
from tfdist.outcome import readable
from tfdist.validation import FieldError
from tfdist.validation.sweep import parse_sweep
from tfdist_operator.cache.manifests import parsed
from tfdist_operator.cache.object_cache import ObjectCache, OnChange, Raw, ignore_changes
from tfdist_operator.kube.keys import NamespacedName


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedSweep:
    """One sweep of the cache. `sweep` is None exactly when `problems` has the field errors."""

    api_version: ClassVar = SWEEP_API_VERSION
    kind: ClassVar = SWEEP_KIND

    key: NamespacedName
    uid: str
    resource_version: int
    generation: int
    manifest: Raw
    """The stored sweep, from which the jobs of its trials are made."""
    sweep: TFDistSweep | None
    problems: tuple[FieldError, ...]
    status: Mapping[str, Any]
    """The stored status as JSON."""
    known: TFDistSweepStatus
    """The stored status, without what this version cannot read."""
    deleting: bool


class SweepCache(ObjectCache[CachedSweep]):
    """Sweeps by key.

    Args:
        pod_defaults: the installation's defaults of the pods of all jobs.
        on_change: called with the key of a sweep that has changed.
        check_programs: whether the default image has only the bundled programs.
    """

    def __init__(
        self, pod_defaults: Raw | None = None, on_change: OnChange = ignore_changes, *, check_programs: bool = True
    ) -> None:
        super().__init__(on_change)
        self._pod_defaults = pod_defaults or {}
        self._check_programs = check_programs

    def every_key(self) -> list[NamespacedName]:
        """Return the key of every sweep."""
        return [key for key, _ in self._objects.values()]

    def _parse(self, raw: Raw) -> tuple[NamespacedName, CachedSweep]:
        meta = raw["metadata"]
        key = NamespacedName(meta["namespace"], meta["name"])
        cached, status = self.get(key), raw.get("status") or {}
        if cached is not None and (cached.uid, cached.generation) == (meta["uid"], meta["generation"]):
            sweep, problems = cached.sweep, cached.problems
        else:
            sweep, problems = parsed(self._read, raw, "sweep")
        return key, CachedSweep(
            key=key,
            uid=meta["uid"],
            resource_version=int(meta["resourceVersion"]),
            generation=meta["generation"],
            manifest=raw,
            sweep=sweep,
            problems=problems,
            status=status,
            known=readable(TFDistSweepStatus, status),
            deleting="deletionTimestamp" in meta,
        )

    def _read(self, raw: Raw) -> TFDistSweep:
        return parse_sweep(raw, self._pod_defaults, programs=self._check_programs)
