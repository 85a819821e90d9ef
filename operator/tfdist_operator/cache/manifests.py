"""Reads manifests of any content, of which none may stop the controller."""

import logging
from collections.abc import Callable
from typing import TypeVar

from tfdist.validation import FieldError, ValidationFailed
from tfdist_operator.cache.object_cache import Raw

log = logging.getLogger(__name__)

T = TypeVar("T")


def parsed(parse: Callable[[Raw], T], raw: Raw, kind: str) -> tuple[T | None, tuple[FieldError, ...]]:
    """Return what `parse` makes of a manifest, or its validation errors.

    Args:
        parse: raises `ValidationFailed` with the errors; any other exception is reported as an error of `spec`.
        raw: the manifest.
        kind: `job` or `sweep`, for the log.
    """
    try:
        return parse(raw), ()
    except ValidationFailed as error:
        return None, tuple(error.problems)
    except Exception as error:
        meta = raw["metadata"]
        log.exception("%s cannot be read", kind, extra={kind: f"{meta['namespace']}/{meta['name']}"})
        text = f"cannot be read: {type(error).__name__}: simplify it, and report this bug of the controller"
        return None, (FieldError("spec", text),)
