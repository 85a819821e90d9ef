"""Parses a TFDistJob and collects all its errors, each with the path of its field.

The API server has rejected the errors that the schema and CEL detect. They are detected here again for jobs that were
stored under an older schema and for offline use, together with the errors that CEL cannot detect.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from tfdist.api.features import unsupported
from tfdist.api.forbidden_values import FORBIDDEN, ONLY_VALIDATED
from tfdist.api.v1 import TFDistJob
from tfdist.validation.errors import FieldError, ValidationFailed, first
from tfdist.validation.merged_pods import merged_problems
from tfdist.validation.metadata import metadata_problems
from tfdist.validation.model_errors import field_error
from tfdist.validation.partial import check_valid_fields
from tfdist.validation.rules import broken_rules
from tfdist.validation.structure import MAX_SPEC_BYTES, nulls, too_deep, too_large
from tfdist.validation.templates import template_problems

_NO_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType({})
_NULLS_ALLOWED: Final = ("spec", "training", "config")
"""Null may be a valid value for a program."""


def parse(
    manifest: Mapping[str, Any],
    pod_defaults: Mapping[str, Any] = _NO_DEFAULTS,
    *,
    programs: bool = True,
    max_bytes: int = MAX_SPEC_BYTES,
) -> TFDistJob:
    """Return the job of a manifest, with every default applied.

    Args:
        manifest: the JSON of a TFDistJob.
        pod_defaults: partial pod template of the installation, which every job overrides.
        programs: whether the installation's trainer image has only the bundled programs, so that the configuration of
            jobs without an image is validated.
        max_bytes: length of the specification's JSON above which it is not read, and has this error only.

    Raises:
        ValidationFailed: with the errors; no manifest raises another exception.
    """
    job, problems = checked(manifest, pod_defaults, programs=programs, max_bytes=max_bytes)
    if job is None:
        raise ValidationFailed(problems)
    return job


def checked(
    manifest: Mapping[str, Any], pod_defaults: Mapping[str, Any], *, programs: bool, max_bytes: int
) -> tuple[TFDistJob | None, list[FieldError]]:
    """Return the job of a manifest, or None and its errors, as many as `limited` reads; arguments as for `parse`."""
    content = {k: v for k, v in manifest.items() if k != "status"}
    if problems := list(too_large(content, max_bytes)) or list(too_deep(content)):
        return None, problems
    try:
        job = TFDistJob.model_validate(content)
    except ValidationError as error:
        return None, list(first(_all_problems(content, error)))
    problems = [*broken_rules(job.spec, "spec"), *_forbidden_texts(job), *first(_schemaless_problems(content))]
    problems = problems or list(first(merged_problems(job, pod_defaults, programs=programs)))
    return (None, problems) if problems else (job, [])


def _all_problems(content: Mapping[str, Any], error: ValidationError) -> Iterator[FieldError]:
    """Yield the errors of a manifest with malformed fields, including errors of its well-formed fields."""
    details = error.errors(include_url=False)
    by_path = {p.path: p for p in check_valid_fields(content.get("spec"), details)}
    # Of a field with several errors the last one applies: it is the most specific.
    by_path |= {p.path: p for p in first(field_error(detail, TFDistJob) for detail in details)}
    by_path |= {p.path: p for p in first(_schemaless_problems(content))}
    unsupported_paths = [f"spec.{feature.path}" for feature in unsupported(content.get("spec"))]
    return (p for p in by_path.values() if not _is_below(p.path, unsupported_paths))


def _is_below(path: str, fields: Iterable[str]) -> bool:
    """Return whether a path is below one of `fields`, each of which is rejected as a whole."""
    return any(path.startswith((f"{field}.", f"{field}[")) for field in fields)


def _forbidden_texts(job: TFDistJob) -> Iterator[FieldError]:
    """Yield the strings that no job may have."""
    yield from (
        FieldError(f"spec.{rule.path}", rule.message)
        for rule in (*FORBIDDEN, *ONLY_VALIDATED)
        if rule.is_used(job.spec)
    )


def _schemaless_problems(content: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield errors that the models do not detect: planned features, nulls, metadata, and fields of Kubernetes' pods."""
    yield from metadata_problems(content.get("metadata"))
    spec = content.get("spec")
    if not isinstance(spec, dict):
        return
    yield from (FieldError(f"spec.{feature.path}", feature.message) for feature in unsupported(spec))
    in_templates = list(first(template_problems(spec)))
    reported = {problem.path for problem in in_templates}
    null_fields = first(nulls(spec, ("spec",), TFDistJob, _NULLS_ALLOWED))
    yield from (problem for problem in null_fields if problem.path not in reported)
    yield from in_templates
