"""The cache of TFDistSweeps."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic_core import from_json, to_json

from tfdist.api.sweep import TFDistSweep
from tfdist.api.sweep_resource import SWEEP_API_VERSION, SWEEP_KIND
from tfdist.api.sweep_status import TFDistSweepStatus
from tfdist.outcome import readable
from tfdist.validation import FieldError
from tfdist.validation.structure import MAX_SPEC_BYTES, bounded
from tfdist.validation.sweep import parse_sweep
from tfdist_operator.cache.manifests import Kept, manifest_json, parsed, read_manifest
from tfdist_operator.cache.object_cache import ObjectCache, OnChange, Raw, ignore_changes
from tfdist_operator.kube.keys import NamespacedName


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedSweep:
    """One sweep of the cache, as JSON, which takes a tenth of the memory of what it is read as (`SweepCache.read`)."""

    api_version: ClassVar = SWEEP_API_VERSION
    kind: ClassVar = SWEEP_KIND

    key: NamespacedName
    uid: str
    resource_version: int
    generation: int
    manifest_json: bytes
    """The stored sweep without its status, from which the jobs of its trials are made; too large a specification is
    omitted."""
    status_json: bytes
    deleting: bool

    @property
    def status(self) -> TFDistSweepStatus:
        """The stored status, without what this version cannot read; read at each access."""
        return readable(TFDistSweepStatus, from_json(self.status_json))


@dataclass(frozen=True, slots=True)
class ReadSweep:
    """What a sweep is read as. `sweep` is None exactly when `problems` has the field errors."""

    manifest: Raw
    sweep: TFDistSweep | None
    problems: tuple[FieldError, ...]


class SweepCache(ObjectCache[CachedSweep]):
    """Sweeps by key.

    Args:
        pod_defaults: the installation's defaults of the pods of all jobs.
        on_change: called with the key of a sweep that has changed.
        check_programs: whether the default image has only the bundled programs.
        max_spec_bytes: size as JSON of the largest valid specification.
    """

    def __init__(
        self,
        pod_defaults: Raw | None = None,
        on_change: OnChange = ignore_changes,
        *,
        check_programs: bool = True,
        max_spec_bytes: int = MAX_SPEC_BYTES,
    ) -> None:
        super().__init__(on_change)
        self._pod_defaults = pod_defaults or {}
        self._check_programs = check_programs
        self._max_spec_bytes = max_spec_bytes
        self._kept: Kept[ReadSweep] = Kept()

    def every_key(self) -> list[NamespacedName]:
        """Return the key of every sweep."""
        return [key for key, _ in self._objects.values()]

    def read(self, sweep: CachedSweep) -> ReadSweep:
        """Return what a sweep is read as; called in any one thread at a time."""
        return self._kept.get(sweep.manifest_json, self._read)

    def evict(self, sweep: CachedSweep) -> None:
        """Remove a sweep for which a request got 404, unless another of its name has been created since."""
        self._delete(sweep.key, sweep.uid, sweep.resource_version)

    def _parse(self, raw: Raw) -> tuple[NamespacedName, CachedSweep]:
        meta = raw["metadata"]
        key = NamespacedName(meta["namespace"], meta["name"])
        return key, CachedSweep(
            key=key,
            uid=meta["uid"],
            resource_version=int(meta["resourceVersion"]),
            generation=meta["generation"],
            manifest_json=manifest_json(bounded(raw, self._max_spec_bytes)),
            status_json=to_json(raw.get("status") or {}),
            deleting="deletionTimestamp" in meta,
        )

    def _read(self, text: bytes) -> ReadSweep:
        raw = read_manifest(text)
        sweep, problems = parsed(self._read_valid, raw, "sweep")
        return ReadSweep(raw, sweep, problems)

    def _read_valid(self, raw: Raw) -> TFDistSweep:
        options: dict[str, Any] = {"programs": self._check_programs, "max_bytes": self._max_spec_bytes}
        return parse_sweep(raw, self._pod_defaults, **options)
