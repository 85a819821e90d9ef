"""Validates the metadata of a manifest; fields that the API server sets are not validated."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tfdist import messages
from tfdist.api import patterns
from tfdist.validation.errors import FieldError

_USER_FIELDS: Final = (
    "name",
    "namespace",
    "generateName",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)
_SERVER_FIELDS: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
_KEY: Final = re.compile(patterns.QUALIFIED_NAME)
_VALUE: Final = re.compile(patterns.LABEL_VALUE)
_MAX_PREFIX: Final = 253
_MAX_NAME: Final = 63


def metadata_problems(metadata: Any) -> Iterator[FieldError]:
    """Yield unknown fields and invalid labels of `metadata`.

    An object from the API server, which has a `resourceVersion`, is skipped: a newer Kubernetes may have more fields.
    """
    if not isinstance(metadata, dict) or "resourceVersion" in metadata:
        return
    known = (*_USER_FIELDS, *_SERVER_FIELDS)
    for name in metadata:
        if name not in known:
            text = messages.unknown_field(name, _USER_FIELDS, f"known fields are {', '.join(_USER_FIELDS)}")
            yield FieldError(messages.child_path("metadata", name), text)
    yield from label_problems(metadata, "metadata")


def label_problems(metadata: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Yield the invalid labels and annotations of the metadata at `path`."""
    for name in ("labels", "annotations"):
        values = metadata.get(name)
        if values is None:
            continue
        if not isinstance(values, dict):
            yield FieldError(f"{path}.{name}", messages.invalid(values, "must be a map of strings"))
            continue
        for key, value in values.items():
            text = _key_error(key, is_label=name == "labels") or _value_error(value, is_label=name == "labels")
            if text:
                yield FieldError(messages.child_path(f"{path}.{name}", key), text)


def _key_error(key: Any, *, is_label: bool) -> str:
    """Return the error of a key, or ""; Kubernetes allows upper case in the prefix of an annotation."""
    if not isinstance(key, str):
        return messages.invalid(key, "the key must be a string; quote it")
    prefix, _, name = key.rpartition("/")
    if not _KEY.fullmatch(key if is_label else key.lower()):
        return messages.invalid(key, "the key must be a qualified name, such as team or example.com/team")
    if len(prefix) > _MAX_PREFIX or len(name) > _MAX_NAME:
        return messages.invalid(key, f"the key must have at most {_MAX_NAME} characters, and its prefix {_MAX_PREFIX}")
    return ""


def _value_error(value: Any, *, is_label: bool) -> str:
    if not isinstance(value, str):
        return messages.invalid(value, messages.MUST_BE_STRING)
    if is_label and len(value) > _MAX_NAME:
        return f"Too long: {len(value)} characters: must have at most {_MAX_NAME} characters"
    if is_label and not _VALUE.fullmatch(value):
        return messages.invalid(value, f"must be {patterns.PATTERN_DESCRIPTIONS[patterns.LABEL_VALUE]}")
    return ""
