"""Checks the metadata of a manifest that a person wrote; what the API server wrote is its own affair."""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tfdist.api import patterns
from tfdist.validation.problems import Problem
from tfdist.validation.wording import below, given

_WRITTEN_BY_PEOPLE: Final = (
    "name",
    "namespace",
    "generateName",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)
_WRITTEN_BY_SERVER: Final = (
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
_LONGEST_PREFIX: Final = 253
_LONGEST_NAME: Final = 63


def metadata_problems(metadata: Any) -> Iterator[Problem]:
    """Yield unknown fields and malformed labels of `metadata`.

    An object from the API server, which has a `resourceVersion`, is left alone: a newer Kubernetes may know more.
    """
    if not isinstance(metadata, dict) or "resourceVersion" in metadata:
        return
    known = (*_WRITTEN_BY_PEOPLE, *_WRITTEN_BY_SERVER)
    for name in metadata:
        if name not in known:
            near = difflib.get_close_matches(str(name), _WRITTEN_BY_PEOPLE, n=1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(_WRITTEN_BY_PEOPLE)}"
            yield Problem(below("metadata", name), f"unknown field; {advice}")
    yield from label_problems(metadata, "metadata")


def label_problems(metadata: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Yield what is wrong with the labels and annotations of the metadata at `path`."""
    for name in ("labels", "annotations"):
        values = metadata.get(name)
        if values is None:
            continue
        if not isinstance(values, dict):
            yield Problem(f"{path}.{name}", f"write a map of texts; got {given(values)}")
            continue
        for key, value in values.items():
            text = _wrong_key(key, is_label=name == "labels") or _wrong_value(value, is_label=name == "labels")
            if text:
                yield Problem(below(f"{path}.{name}", key), text)


def _wrong_key(key: Any, *, is_label: bool) -> str:
    """Return what is wrong with a key; in the domain of an annotation Kubernetes takes capitals as well."""
    if not isinstance(key, str):
        return f"the key is not well-formed: write it in quotes; got {given(key)}"
    prefix, _, name = key.rpartition("/")
    if not _KEY.fullmatch(key if is_label else key.lower()):
        return f"the key is not well-formed: write a name such as team or example.com/team; got {given(key)}"
    if len(prefix) > _LONGEST_PREFIX or len(name) > _LONGEST_NAME:
        return f"the key is not well-formed: at most {_LONGEST_NAME} characters, and {_LONGEST_PREFIX} before the slash"
    return ""


def _wrong_value(value: Any, *, is_label: bool) -> str:
    if not isinstance(value, str):
        return f"write text, numbers and true or false in quotes; got {given(value)}"
    if is_label and len(value) > _LONGEST_NAME:
        return f"write at most {_LONGEST_NAME} characters; got {len(value)}"
    if is_label and not _VALUE.fullmatch(value):
        return f"{patterns.WORDS[patterns.LABEL_VALUE]}; got {given(value)}"
    return ""
