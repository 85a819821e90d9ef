"""Classifies documents by apiVersion and kind."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final

from tfdist.api.resource import API_VERSION, GROUP, KIND
from tfdist.api.sweep_resource import SWEEP_API_VERSION, SWEEP_KIND

_KUBEFLOW: Final = "kubeflow.org/"


class DocumentKind(Enum):
    """Kind of a document."""

    JOB = auto()
    SWEEP = auto()
    TFJOB = auto()
    OTHER = auto()


_SERVED: Final = {
    KIND: (API_VERSION, DocumentKind.JOB),
    SWEEP_KIND: (SWEEP_API_VERSION, DocumentKind.SWEEP),
}
"""apiVersion of each kind of this project."""


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
    is_own_group = api_version.partition("/")[0] == GROUP
    meant = next((name for name in _SERVED if name.lower() == kind.lower()), None)
    if not is_own_group and meant is None:
        return DocumentKind.OTHER
    meant = meant or (SWEEP_KIND if api_version == SWEEP_API_VERSION else KIND)
    served_version, result = _SERVED[meant]
    if api_version != served_version:
        is_known = api_version in {version for version, _ in _SERVED.values()}
        fact = f"{api_version} has no kind {kind}" if is_known else f"unknown version {api_version!r}"
        raise UnknownKind("apiVersion", f"{fact}; write {served_version}")
    if kind != meant:
        raise UnknownKind("kind", f"{served_version} has no kind {kind!r}; write {meant}")
    return result


def _text(manifest: Mapping[str, Any], field: str) -> str:
    value = manifest.get(field)
    if value is None or value == "":
        raise UnknownKind(field, f"required value; a job has apiVersion: {API_VERSION} and kind: {KIND}")
    if not isinstance(value, str):
        raise UnknownKind(field, f"must be text; got {value!r:.60}")
    return value
