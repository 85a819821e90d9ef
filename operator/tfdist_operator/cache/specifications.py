"""Reads the specifications of a job: the newest one, earlier ones, and the valid part of an invalid one.

A specification takes up to 25 times the memory of its JSON. Small ones are read once for each generation. A large one
is kept as JSON and read for each plan, in a thread (`reconcile.reconciler`).
"""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import from_json, to_json

from tfdist.api.v1 import TFDistJob
from tfdist.render.fingerprint import fingerprint
from tfdist.render.names import RESTART_ANNOTATION
from tfdist.render.written_directories import WrittenDirectory, written_directories
from tfdist.validation import FieldError, parse, warnings
from tfdist.validation.partial import partial_job
from tfdist.validation.structure import OmittedSpec, bounded
from tfdist_operator.cache.manifests import LARGE_BYTES, LargeSpec, ParseCache, manifest_json, parse_or_errors

log = logging.getLogger(__name__)

_LONGEST_REQUEST: Final = 64

Raw = Mapping[str, Any]
OlderSpecifications = Mapping[int, "TFDistJob | bytes"]
"""Specifications by generation; a large one as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSpecification:
    """A parsed specification. `job` is None exactly when `problems` has the field errors."""

    job: TFDistJob | None
    problems: tuple[FieldError, ...]
    warnings: tuple[FieldError, ...] = ()
    template: str = ""
    partial: TFDistJob | None = None
    written: tuple[WrittenDirectory, ...] = ()


class SpecificationReader:
    """Reads specifications.

    Args:
        pod_defaults: the installation's defaults of the pods of all jobs.
        check_programs: whether the default image has only the bundled programs.
        max_bytes: size of the largest valid specification.
    """

    def __init__(self, pod_defaults: Raw, *, check_programs: bool, max_bytes: int) -> None:
        self._options: dict[str, Any] = {"programs": check_programs, "max_bytes": max_bytes}
        self._pod_defaults = pod_defaults
        self._max_bytes = max_bytes
        self._kept: ParseCache[ParsedSpecification] = ParseCache()

    def large_json(self, raw: Raw) -> bytes:
        """Return a large specification as JSON, with the metadata that reading it needs; b"" for any other."""
        spec = raw.get("spec")
        # kopf's session has replaced the specification already (`shrink_manifest`).
        if isinstance(spec, OmittedSpec):
            return spec.text if isinstance(spec, LargeSpec) else b""
        try:
            text = to_json(spec)
        except ValueError:
            return b""  # nested too deep, which reading it reports
        if not LARGE_BYTES < len(text) <= self._max_bytes:
            return b""
        return manifest_json(raw, text)

    def read(self, raw: Raw) -> ParsedSpecification:
        """Parse a specification."""
        raw = bounded(raw, self._max_bytes)
        job, problems = parse_or_errors(self._parse, raw, "job")
        if job is None:
            return ParsedSpecification(job=None, problems=problems, partial=valid_part(raw, problems))
        return ParsedSpecification(
            job=job,
            problems=(),
            warnings=self._warnings(job),
            template=fingerprint(job),
            written=written_directories(job),
        )

    def read_large(self, text: bytes, status: Raw) -> ParsedSpecification:
        """Parse a large specification; the status of the job gives the replica counts of an invalid one."""
        return self._kept.get(text, lambda text: self.read({**from_json(text), "status": status}))

    def older_specifications(self, raw: Raw, previous: OlderSpecifications) -> OlderSpecifications:
        """Return the earlier specifications that pods of a job are created from.

        Args:
            raw: the job as JSON of the API server.
            previous: the specifications that this process has observed.
        """
        status = _mapping(raw, "status")
        records = _mapping(status, "gangs").values()
        generations = {record.get("generation", 0) for record in records if isinstance(record, Mapping)}
        texts = _mapping(status, "specifications")
        result = {}
        # Pods of a running attempt are created from the specification that it began with (ADR 22).
        for generation in generations - {0, raw["metadata"]["generation"]}:
            job = previous.get(generation) or self._status_specification(raw, texts.get(str(generation)))
            if job is not None:
                result[generation] = job
        return result

    def read_older(self, older: OlderSpecifications) -> dict[int, TFDistJob]:
        """Return earlier specifications; without those that are not valid any more."""
        jobs = {number: self._restore(job) if isinstance(job, bytes) else job for number, job in older.items()}
        return {number: job for number, job in jobs.items() if job is not None}

    def _status_specification(self, raw: Raw, text: Any) -> TFDistJob | bytes | None:
        """Return a specification that the status of a job keeps as JSON; None if it is missing or invalid."""
        if not isinstance(text, str) or len(text) > self._max_bytes:
            return None
        manifest = manifest_json(raw, text.encode())
        return manifest if len(text) > LARGE_BYTES else self._restore(manifest)

    def _restore(self, manifest: bytes) -> TFDistJob | None:
        try:
            return self._parse(from_json(manifest))
        except ValueError:
            return None  # for example of a version with other rules: the gang restarts as a whole

    def _parse(self, raw: Raw) -> TFDistJob:
        return parse(raw, self._pod_defaults, **self._options)

    def _warnings(self, job: TFDistJob) -> tuple[FieldError, ...]:
        """Return the warnings about a valid job; an exception in the checks must not keep it from running."""
        try:
            return tuple(warnings(job, self._pod_defaults))
        except Exception:
            log.exception("warnings about a job cannot be computed", extra={"job": job.metadata.name})
            return ()


def _mapping(content: Raw, name: str) -> Raw:
    """Return a mapping in a status, which another client may have written; {} if the value is not a mapping."""
    value = content.get(name)
    return value if isinstance(value, Mapping) else {}


def valid_part(raw: Raw, problems: tuple[FieldError, ...]) -> TFDistJob:
    """Return the valid part of an invalid specification, with the replica counts of the start of the job."""
    replicas = _mapping(_mapping(raw, "status"), "replicas")
    sizes = {role: counts["desired"] for role, counts in replicas.items() if isinstance(counts, Mapping)}
    try:
        return partial_job(raw, problems, sizes)
    except Exception:
        log.exception("nothing of an invalid specification can be read", extra={"job": raw["metadata"]["name"]})
        return partial_job({"metadata": raw["metadata"]}, (), sizes)


def restart_request(raw: Raw) -> str:
    """Return the value of the annotation that requests a restart, or a hash of a long one; "" without one."""
    value = (raw["metadata"].get("annotations") or {}).get(RESTART_ANNOTATION, "")
    return value if len(value) <= _LONGEST_REQUEST else hashlib.sha256(value.encode()).hexdigest()
