"""Manifests as JSON, and how they are read: of any content, none may stop the controller.

A manifest takes up to 25 times the memory of its JSON, as dictionaries and as a model. So the caches hold JSON, and a
few of those that were read last.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic_core import from_json, to_json

from tfdist.validation import FieldError, ValidationFailed
from tfdist.validation.structure import OmittedSpec, bounded
from tfdist_operator.budget import BUDGET, SLOW_SECONDS
from tfdist_operator.cache.resource_cache import Raw
from tfdist_operator.metrics import SLOW_OBJECTS

log = logging.getLogger(__name__)

T = TypeVar("T")

LARGE_BYTES: Final = 16 * 1024
"""Size as JSON of the largest specification that is not large."""
_OMITTED: Final = "omittedSpec"
"""Key of a manifest whose specification was too large and has been replaced by its policies; the CRDs have no such
field, so that the API server stores none."""
_LARGE: Final = "largeSpec"
"""The same for a large specification, with its text."""
_KEPT_METADATA: Final = ("name", "namespace", "uid", "labels")
_KEPT_BYTES: Final = 2 << 20


@dataclass(frozen=True, slots=True)
class LargeSpec(OmittedSpec):
    """Stands for a large specification: its policies, and the manifest as `manifest_json`."""

    text: bytes = b""


def shrink_manifest(raw: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """Return a manifest that takes little memory: a large specification is one string, and too large a one omitted.

    `restore_manifest` returns it with `LargeSpec` or `OmittedSpec`.
    """
    small = bounded(raw, LARGE_BYTES)
    if small is raw:
        return raw
    spec, policies = raw["spec"], dict(small["spec"])
    # Too large to be valid: only its policies are kept.
    if bounded(raw, max_bytes) is not raw:
        return {**raw, "spec": policies, _OMITTED: True}
    # Whether the job writes to a directory must be known before the specification is read (ADR 31).
    if "checkpoint" in spec:
        policies.setdefault("checkpoint", {})
    return {**raw, "spec": policies, _LARGE: manifest_json(raw, to_json(spec)).decode()}


def manifest_json(raw: Raw, spec: bytes | None = None) -> bytes:
    """Return a manifest as JSON: the specification, or the given one, and the metadata that reading it needs.

    It is the same for each version of an object with the same specification and labels.
    """
    meta = raw["metadata"]
    kept = {name: meta[name] for name in _KEPT_METADATA if name in meta} | {"resourceVersion": ""}
    content = {name: raw[name] for name in ("apiVersion", "kind") if name in raw} | {"metadata": kept}
    if spec is None:
        spec = raw.get("spec")
        omitted = {_OMITTED: True, "spec": dict(spec)} if isinstance(spec, OmittedSpec) else {"spec": spec}
        return to_json(content | omitted)
    return b"".join((to_json(content)[:-1], b',"spec":', spec, b"}"))


def read_manifest(text: bytes) -> dict[str, Any]:
    """Return a manifest from its JSON."""
    return restore_manifest(from_json(text))


def restore_manifest(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest that `shrink_manifest` or `manifest_json` got, with a placeholder for what it omits."""
    if raw.get(_OMITTED) is True:
        return {**raw, "spec": OmittedSpec(raw["spec"])}
    if isinstance(text := raw.get(_LARGE), str):
        return {**raw, "spec": LargeSpec(raw["spec"], text.encode())}
    return raw


class ParseCache(Generic[T]):
    """What was read last, by its JSON; together at most two MiB of JSON. Used by one thread at a time."""

    def __init__(self) -> None:
        self._items: OrderedDict[bytes, T] = OrderedDict()
        self._bytes = 0

    def get(self, text: bytes, read: Callable[[bytes], T]) -> T:
        """Return the result of `read` for a text, and keep it."""
        if text in self._items:
            self._items.move_to_end(text)
            return self._items[text]
        value = self._items[text] = read(text)
        self._bytes += len(text)
        while self._bytes > _KEPT_BYTES:
            oldest, _ = self._items.popitem(last=False)
            self._bytes -= len(oldest)
        return value


def parse_or_errors(parse: Callable[[Raw], T], raw: Raw, kind: str) -> tuple[T | None, tuple[FieldError, ...]]:
    """Return what `parse` makes of a manifest, or its validation errors.

    Args:
        parse: raises `ValidationFailed` with the errors; any other exception is reported as an error of `spec`.
        raw: the manifest.
        kind: `job` or `sweep`, for the log.
    """
    meta = raw["metadata"]
    name = f"{meta['namespace']}/{meta['name']}"
    try:
        # A manifest of any content may be slow to parse, or meet a bug: it must not stop the controller (ADR 53).
        parsed, seconds = BUDGET.run(f"parsing of the {kind} {name}", lambda: _parse_valid(parse, raw))
    except Exception as error:
        log.exception("%s cannot be read", kind, extra={kind: name})
        text = f"cannot be read: {type(error).__name__}: simplify it, and report this bug of the controller"
        return None, (FieldError("spec", text),)
    if seconds > SLOW_SECONDS:
        SLOW_OBJECTS.labels(kind, "parse").inc()
        log.warning("parsing took long", extra={kind: name, "seconds": round(seconds, 1)})
    return parsed


def _parse_valid(parse: Callable[[Raw], T], raw: Raw) -> tuple[T | None, tuple[FieldError, ...]]:
    try:
        return parse(raw), ()
    except ValidationFailed as error:
        return None, tuple(error.problems)
