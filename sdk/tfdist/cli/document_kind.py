"""Classifies documents by apiVersion and kind."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final

from tfdist.api.resource import API_VERSION, GROUP, KIND

_KUBEFLOW: Final = "kubeflow.org/"


class DocumentKind(Enum):
    """Kind of a document."""

    JOB = auto()
    TFJOB = auto()
    OTHER = auto()


class UnknownKind(ValueError):  # noqa: N818  reads well where it is caught
    """apiVersion or kind is missing or misspelled: path of the field, and the message with the remedy."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path, self.message = path, message


def classify(manifest: Mapping[str, Any]) -> DocumentKind:
    """Return the kind of `manifest`.

    Raises:
        UnknownKind: apiVersion or kind is missing, or misspelled so that no API server serves it.
    """
    api_version, kind = (_text(manifest, field) for field in ("apiVersion", "kind"))
    if api_version.startswith(_KUBEFLOW):
        return DocumentKind.TFJOB if kind == "TFJob" else DocumentKind.OTHER
    ours = api_version.partition("/")[0] == GROUP
    if not ours and kind.lower() != KIND.lower():
        return DocumentKind.OTHER
    if api_version != API_VERSION:
        raise UnknownKind("apiVersion", f"unknown version {api_version!r}; write {API_VERSION}")
    if kind != KIND:
        raise UnknownKind("kind", f"{API_VERSION} has no kind {kind!r}; write {KIND}")
    return DocumentKind.JOB


def _text(manifest: Mapping[str, Any], field: str) -> str:
    value = manifest.get(field)
    if value is None or value == "":
        raise UnknownKind(field, f"required value; a job has apiVersion: {API_VERSION} and kind: {KIND}")
    if not isinstance(value, str):
        raise UnknownKind(field, f"must be text; got {value!r:.60}")
    return value
