"""The sweeps of the cluster: their cache, the queue of those to reconcile, and their watch if the CRD is installed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pydantic_core import from_json, to_json

from tfdist.api.resource import GROUP
from tfdist.api.sweep import TFDistSweep
from tfdist.api.sweep_resource import SWEEP_API_VERSION, SWEEP_KIND, SWEEP_PLURAL, SWEEP_VERSION
from tfdist.api.sweep_status import TFDistSweepStatus
from tfdist.outcome import readable
from tfdist.validation import FieldError
from tfdist.validation.structure import MAX_SPEC_BYTES, bounded
from tfdist.validation.sweep import parse_sweep
from tfdist_operator.cache.informer import Informer, WatchedResource
from tfdist_operator.cache.manifests import ParseCache, manifest_json, parse_or_errors, read_manifest
from tfdist_operator.cache.optional_api import OptionalApi, is_served
from tfdist_operator.cache.resource_cache import OnChange, Raw, ResourceCache, ignore_changes
from tfdist_operator.kube.client import ApiClient
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.kube.workqueue import WorkQueue

_PATH: Final = f"apis/{GROUP}/{SWEEP_VERSION}"
_JOB_SECONDS: Final = 1.0
"""Time in which the changes of the jobs of a sweep are collected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedSweep:
    """One sweep of the cache. Its JSON takes a tenth of the memory of the model that `SweepCache.read` returns."""

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
class ParsedSweep:
    """A parsed sweep. `sweep` is None exactly when `problems` has the field errors."""

    manifest: Raw
    sweep: TFDistSweep | None
    problems: tuple[FieldError, ...]


class SweepCache(ResourceCache[CachedSweep]):
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
        self._kept: ParseCache[ParsedSweep] = ParseCache()

    def all_keys(self) -> list[NamespacedName]:
        """Return the key of every sweep."""
        return [key for key, _ in self._objects.values()]

    def read(self, sweep: CachedSweep) -> ParsedSweep:
        """Parse a sweep; called by one thread at a time."""
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

    def _read(self, text: bytes) -> ParsedSweep:
        raw = read_manifest(text)
        sweep, problems = parse_or_errors(self._parse_sweep, raw, "sweep")
        return ParsedSweep(raw, sweep, problems)

    def _parse_sweep(self, raw: Raw) -> TFDistSweep:
        options: dict[str, Any] = {"programs": self._check_programs, "max_bytes": self._max_spec_bytes}
        return parse_sweep(raw, self._pod_defaults, **options)


class SweepWatch:
    """The watch of sweeps, and their queue.

    Args:
        client: client of the API server.
        namespaces: the namespaces of the controller.
        make_cache: makes the cache of the sweeps, given what is called when one has changed.
        leads: returns whether this replica leads; a standby queues nothing.
    """

    def __init__(
        self,
        client: ApiClient,
        namespaces: Iterable[str],
        make_cache: Callable[[OnChange], SweepCache],
        leads: Callable[[], bool],
    ) -> None:
        self._client = client
        self._namespaces = tuple(namespaces)
        self._leads = leads
        self.queue: WorkQueue[NamespacedName] = WorkQueue()
        self.cache = make_cache(self._on_change)
        self.api = OptionalApi(client, f"{SWEEP_PLURAL}.{GROUP}", _served_version, self._informers, self.enqueue_all)

    def enqueue_all(self) -> None:
        """Enqueue every sweep, if this replica leads."""
        for key in self.cache.all_keys():
            self._on_change(key)

    def on_job_change(self, key: NamespacedName) -> None:
        """Enqueue the sweep with this key after a short delay: one of its jobs has changed."""
        if self._leads():
            # Collected: with 500 trials a job changes every few milliseconds, and each plan reads all of them.
            self.queue.add_after(key, _JOB_SECONDS)

    def _on_change(self, key: NamespacedName) -> None:
        if self._leads():
            self.queue.add(key)

    def _informers(self, _version: str) -> Sequence[Informer]:
        watched = [WatchedResource.for_kind(_PATH, SWEEP_PLURAL, namespace) for namespace in self._namespaces]
        return [Informer(self._client, watch, self.cache) for watch in watched]


async def _served_version(client: ApiClient) -> str:
    """Return the version of the sweeps if the API server serves it; "" without it."""
    return SWEEP_VERSION if await is_served(client, _PATH, SWEEP_PLURAL) else ""
