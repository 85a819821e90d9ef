"""The review of the admission webhooks: it reports the errors of `tfdist validate` when a job or a sweep is applied.

A change is rejected for the errors that it adds. Errors of the object before the change become warnings: a job that
became invalid, for example by an upgrade, can still be suspended. The controller checks every object again after
admission, so one that cannot be validated here is admitted.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tfdist.api.sweep_resource import SWEEP_KIND
from tfdist.planner.finished_job import unused_change_warning
from tfdist.printable import printable
from tfdist.validation import FieldError, ValidationFailed, parse, warnings
from tfdist.validation.errors import are_all
from tfdist.validation.structure import MAX_SPEC_BYTES
from tfdist.validation.sweep import parse_sweep, sweep_warnings

log = logging.getLogger(__name__)

WEBHOOK: Final = "validate.tfdist.dev"
SWEEP_WEBHOOK: Final = "validate-sweep.tfdist.dev"
_SUFFIX: Final = "xxxxx"
"""Placeholder for the characters that the API server appends to `generateName` after admission."""
_WARNING_CHARACTERS: Final = 250
"""Maximum length of a warning; the API server cuts it at 256."""

_Check = Callable[[Mapping[str, Any]], list[str]]
"""Returns the warnings about a manifest, or raises its errors."""


@dataclass(frozen=True, slots=True)
class Review:
    """The result of a review: errors, which reject the object, and warnings."""

    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Replace control characters, which a manifest may contain: kubectl prints these texts."""
        object.__setattr__(self, "problems", tuple(map(printable, self.problems)))
        object.__setattr__(self, "warnings", tuple(map(printable, self.warnings)))


def review(
    manifest: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    pod_defaults: Mapping[str, Any],
    *,
    programs: bool = True,
    max_bytes: int = MAX_SPEC_BYTES,
) -> Review:
    """Return the errors and warnings of a job or sweep that is created, or changed from `old`; it raises no errors.

    `pod_defaults`, `programs` and `max_bytes` are the arguments of `tfdist.validation.parse`.
    """
    check = _check_sweep if manifest.get("kind") == SWEEP_KIND else partial(_check_job, old=old)
    options: dict[str, Any] = {"pod_defaults": pod_defaults, "programs": programs, "max_bytes": max_bytes}
    try:
        return _review(manifest, old, partial(check, **options))
    except Exception as error:
        # A bug must not block all users: the controller checks every object again after admission (ADR 20).
        log.exception("an object cannot be validated at admission; it is admitted")
        text = f"not validated at admission, by a bug of the controller ({type(error).__name__}); it is checked later"
        return Review(warnings=(text,))


def _check_job(
    manifest: Mapping[str, Any],
    *,
    old: Mapping[str, Any] | None,
    pod_defaults: Mapping[str, Any],
    programs: bool,
    max_bytes: int,
) -> list[str]:
    """Return the warnings about a job, and about a change of `old` that has no effect.

    Raises:
        ValidationFailed: it has errors.
    """
    job = parse(manifest, pod_defaults, programs=programs, max_bytes=max_bytes)
    warning = unused_change_warning(old, manifest) if old else ""
    return [*filter(None, (warning,)), *map(str, warnings(job, pod_defaults))]


def _check_sweep(
    manifest: Mapping[str, Any], *, pod_defaults: Mapping[str, Any], programs: bool, max_bytes: int
) -> list[str]:
    """Return the warnings about a sweep.

    Raises:
        ValidationFailed: it has errors.
    """
    sweep = parse_sweep(manifest, pod_defaults, programs=programs, max_bytes=max_bytes)
    return [str(warning) for warning in sweep_warnings(sweep, pod_defaults)]


def _review(manifest: Mapping[str, Any], old: Mapping[str, Any] | None, check: _Check) -> Review:
    try:
        return Review(warnings=tuple(warning[:_WARNING_CHARACTERS] for warning in check(_with_name(manifest))))
    except ValidationFailed as error:
        # A change is rejected for the errors that it adds: a job that an upgrade made invalid can still be suspended
        # (ADR 20).
        return _compare(error.problems, _errors(old, check) if old else ())


def _errors(manifest: Mapping[str, Any], check: _Check) -> Sequence[FieldError]:
    try:
        check(_with_name(manifest))
    except ValidationFailed as error:
        return error.problems
    return ()


def _compare(problems: Sequence[FieldError], previous: Sequence[FieldError]) -> Review:
    # Of an object with very many errors not all are known, so that none counts as added.
    known_problems = set(previous if are_all(previous) else problems)
    errors = tuple(str(problem) for problem in problems if problem not in known_problems)
    remaining = tuple(str(problem)[:_WARNING_CHARACTERS] for problem in problems if problem in known_problems)
    return Review(errors, remaining)


def _with_name(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the manifest with a name; with `generateName` the API server has not chosen it yet."""
    meta = manifest.get("metadata")
    if not isinstance(meta, Mapping) or meta.get("name") or not meta.get("generateName"):
        return manifest
    return {**manifest, "metadata": {**meta, "name": f"{meta['generateName']}{_SUFFIX}"}}
