"""Errors of a manifest that the models do not detect, whatever the resource: its size, its depth, and null fields."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import to_json

from tfdist import messages
from tfdist.validation.errors import FieldError
from tfdist.validation.model_errors import takes_object

MAX_SPEC_BYTES: Final = 256 * 1024
"""Length of a specification as compact JSON in UTF-8, above which it is invalid without being read further."""
MAX_DEPTH: Final = 64
"""Levels of objects and lists; an affinity, the deepest part of a pod, has twelve."""
_SHOWN_LEVELS: Final = 3
_CONTAINERS: Final = (dict, list)
_SIZE_REMEDY: Final = (
    "move code to training.source or the image, and data and long lists to files on a volume or in a ConfigMap"
)
_POLICIES: Final = (
    "task",
    "strategy",
    "runPolicy",
    "successPolicy",
    "failurePolicy",
    "scheduling",
    "evaluation",
    "checkpoint",
    "networkPolicy",
    "networkPolicyIngress",
)
"""Fields of a job that the life cycle of its running pods follows."""
_MAX_POLICY_BYTES: Final = 4096

Location = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class OmittedSpec(Mapping[str, Any]):
    """Stands for a specification above the limit, which is not kept in memory, and has its small policies.

    It is a mapping, so that these are read as from any specification, and no `dict`: what writes JSON rejects it
    instead of writing an incomplete specification.
    """

    policies: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """Return a policy that was kept."""
        return self.policies[name]

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the names of the policies that were kept."""
        return iter(self.policies)

    def __len__(self) -> int:
        """Return the number of policies that were kept."""
        return len(self.policies)


def bounded(manifest: Mapping[str, Any], max_bytes: int = MAX_SPEC_BYTES) -> Mapping[str, Any]:
    """Return a manifest that takes little memory: itself, or a copy with `OmittedSpec` for a specification too large.

    `parse` and `parse_sweep` report the same error about both.
    """
    spec = manifest.get("spec")
    if isinstance(spec, OmittedSpec) or not _is_larger(spec, max_bytes):
        return manifest
    fields = spec if isinstance(spec, Mapping) else {}
    policies = {name: fields[name] for name in _POLICIES if name in fields}
    small = {name: value for name, value in policies.items() if not _is_larger(value, _MAX_POLICY_BYTES)}
    return {**manifest, "spec": OmittedSpec(small)}


def too_large(content: Mapping[str, Any], max_bytes: int) -> Iterator[FieldError]:
    """Yield the error of a specification with more than `max_bytes` bytes of JSON.

    Its exact size is not part of the message: at admission, errors that the object had before are no errors of a
    change, and every change of another field changes the size.
    """
    if _is_larger(content.get("spec"), max_bytes):
        yield FieldError("spec", f"Too large: must have at most {max_bytes} bytes as JSON; {_SIZE_REMEDY}")


def json_bytes(value: Any) -> int:
    """Return the length of a value as compact JSON in UTF-8, or about its length if it cannot be written as JSON."""
    try:
        return len(to_json(value))
    except ValueError:  # such as a lone surrogate
        pass
    try:
        return len(repr(value))
    except (RecursionError, ValueError):
        return 0  # `too_deep` reports it


def _is_larger(value: Any, max_bytes: int) -> bool:
    return isinstance(value, OmittedSpec) or _has_more_text(value, max_bytes) or json_bytes(value) > max_bytes


def _has_more_text(value: Any, limit: int) -> bool:
    """Return whether the strings of a value, and its items, one character each, exceed a limit.

    Its JSON, which is longer, can be far larger than the memory of the value: YAML and clients repeat objects.
    """
    remaining, unread = limit, [value]
    while unread and remaining >= 0:
        item = unread.pop()
        if isinstance(item, str):
            remaining -= len(item)
        elif isinstance(item, dict):
            remaining -= len(item) + sum(len(key) for key in item if isinstance(key, str))
            unread.extend(item.values())
        elif isinstance(item, list | tuple):
            remaining -= len(item)
            unread.extend(item)
    return remaining < 0


def too_deep(content: Mapping[Any, Any]) -> Iterator[FieldError]:
    """Yield the first field nested deeper than `MAX_DEPTH`: recursive validation must not exhaust the stack."""
    level: list[tuple[Location, Any]] = [((), content)]
    for _ in range(MAX_DEPTH):
        level = [
            ((*at, key)[:_SHOWN_LEVELS], item)
            for at, value in level
            for key, item in _items(value)
            if isinstance(item, _CONTAINERS)
        ]
    for at, _ in level[:1]:
        yield FieldError(messages.join_path(at), f"nested deeper than {MAX_DEPTH} levels; reduce the nesting")


def nulls(value: Any, location: Location, model: type[BaseModel], *allowed: Location) -> Iterator[FieldError]:
    """Yield an error for each null field: the API server drops it, and users often write `chief:` without a value.

    Args:
        value: an object or list at `location`.
        location: keys and indices from the root of the manifest.
        model: the model of the manifest.
        allowed: locations of objects that may have nulls, such as the configuration of a program; `...` stands for
            any key or index.
    """
    if any(_is_at(location, each) for each in allowed):
        return
    for key, item in _items(value):
        if item is None:
            yield FieldError(messages.join_path((*location, key)), _null((*location, key), model))
        elif item and isinstance(item, _CONTAINERS):
            yield from nulls(item, (*location, key), model, *allowed)


def _is_at(location: Location, pattern: Location) -> bool:
    return len(location) == len(pattern) and all(b in {a, ...} for a, b in zip(location, pattern, strict=True))


def _null(location: Location, model: type[BaseModel]) -> str:
    remedy = "use {} for defaults" if takes_object(model, location) else "set a value"
    return f"must not be null; {remedy}, or remove the field"


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    return iter(value.items() if isinstance(value, Mapping) else enumerate(value))
