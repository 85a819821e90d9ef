"""Checks the metadata of a manifest that a person wrote; what the API server wrote is its own affair."""

import difflib
from collections.abc import Iterator
from typing import Any, Final

from tfdist.validation.problems import Problem
from tfdist.validation.wording import given

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
            yield Problem(f"metadata.{name}", f"unknown field; {advice}")
    for name in ("labels", "annotations"):
        yield from _texts(metadata.get(name), f"metadata.{name}")


def _texts(values: Any, path: str) -> Iterator[Problem]:
    if values is None:
        return
    if not isinstance(values, dict):
        yield Problem(path, f"write a map of texts; got {given(values)}")
        return
    for key, value in values.items():
        if not isinstance(value, str):
            yield Problem(f"{path}[{key!r}]", f"write text, numbers and true or false in quotes; got {given(value)}")
