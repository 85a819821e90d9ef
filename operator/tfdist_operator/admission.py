"""The review of the admission webhook: it reports the errors of `tfdist validate` when a job is applied.

A change is rejected for the errors that it adds. Errors of the job before the change become warnings: a job that became
invalid, for example by an upgrade, can still be suspended. The controller checks every job again after admission, so a
job that cannot be validated here is admitted.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tfdist.api.v1 import TFDistJob
from tfdist.contract_model import printable
from tfdist.planner.finished_job import unused_change_warning
from tfdist.validation import FieldError, ValidationFailed, parse, warnings

log = logging.getLogger(__name__)

WEBHOOK: Final = "validate.tfdist.dev"
_SUFFIX: Final = "xxxxx"
"""Placeholder for the characters that the API server appends to `generateName` after admission."""
_WARNING_CHARACTERS: Final = 250
"""Maximum length of a warning; the API server cuts it at 256."""


@dataclass(frozen=True, slots=True)
class Review:
    """The result of a review: errors, which reject the job, and warnings."""

    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Replace control characters, which a manifest may have: kubectl prints these texts."""
        object.__setattr__(self, "problems", tuple(map(printable, self.problems)))
        object.__setattr__(self, "warnings", tuple(map(printable, self.warnings)))


def review(
    manifest: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    pod_defaults: Mapping[str, Any],
    *,
    programs: bool = True,
) -> Review:
    """Return the errors and warnings of a job that is created, or changed from `old`; it raises no errors.

    `pod_defaults` and `programs` are those of `tfdist.validation.parse`.
    """
    try:
        job, found = _parsed(manifest, pod_defaults, programs=programs)
        unused = unused_change_warning(old, manifest) if old else ""
        if job is not None:
            given = [str(each)[:_WARNING_CHARACTERS] for each in warnings(job, pod_defaults, programs=programs)]
            return Review(warnings=(*filter(None, (unused,)), *given))
        return _compared(found, _parsed(old, pod_defaults, programs=programs)[1] if old else ())
    except Exception as error:
        log.exception("a job cannot be validated at admission; it is admitted")
        text = f"not validated at admission, by a bug of the controller ({type(error).__name__}); it is checked later"
        return Review(warnings=(text,))


def _parsed(
    manifest: Mapping[str, Any], pod_defaults: Mapping[str, Any], *, programs: bool
) -> tuple[TFDistJob | None, tuple[FieldError, ...]]:
    try:
        return parse(_named(manifest), pod_defaults, programs=programs), ()
    except ValidationFailed as error:
        return None, tuple(error.problems)


def _compared(found: Sequence[FieldError], before: Sequence[FieldError]) -> Review:
    known = set(before)
    added = tuple(str(problem) for problem in found if problem not in known)
    kept = tuple(str(problem)[:_WARNING_CHARACTERS] for problem in found if problem in known)
    return Review(added, kept)


def _named(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the manifest with a name; with `generateName` the API server has not chosen it yet."""
    meta = manifest.get("metadata")
    if not isinstance(meta, Mapping) or meta.get("name") or not meta.get("generateName"):
        return manifest
    return {**manifest, "metadata": {**meta, "name": f"{meta['generateName']}{_SUFFIX}"}}
