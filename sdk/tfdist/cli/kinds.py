"""Which documents concern TFDist: by apiVersion and kind, with words for those that nearly do."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final

from tfdist.api.v1 import API_VERSION, GROUP, KIND

_KUBEFLOW: Final = "kubeflow.org/"


class What(Enum):
    """What a document is to TFDist."""

    JOB = auto()
    TFJOB = auto()
    OTHER = auto()


class WrongKind(ValueError):  # noqa: N818  the name says what the user has
    """A document meant for TFDist, or for nobody: the path of the field, and what to write there."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path, self.message = path, message


def what(manifest: Mapping[str, Any]) -> What:
    """Return what `manifest` is.

    Raises:
        WrongKind: apiVersion or kind is absent, or misspelled in a way that no cluster serves.
    """
    api_version, kind = (_text(manifest, field) for field in ("apiVersion", "kind"))
    if api_version.startswith(_KUBEFLOW):
        return What.TFJOB if kind == "TFJob" else What.OTHER
    ours = api_version.partition("/")[0] == GROUP
    if not ours and kind.lower() != KIND.lower():
        return What.OTHER
    if api_version != API_VERSION:
        raise WrongKind("apiVersion", f"nothing serves {api_version!r}; write {API_VERSION}")
    if kind != KIND:
        raise WrongKind("kind", f"{API_VERSION} has no kind {kind!r}; write {KIND}")
    return What.JOB


def _text(manifest: Mapping[str, Any], field: str) -> str:
    value = manifest.get(field)
    if value is None or value == "":
        raise WrongKind(field, f"required, and absent; a job has apiVersion: {API_VERSION} and kind: {KIND}")
    if not isinstance(value, str):
        raise WrongKind(field, f"must be text; got {value!r:.60}")
    return value
