"""The schema of TFDistJob that an API server publishes, compared with the one of this version.

It is read from `/openapi/v3`, which every authenticated account may read.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tfdist.api.crd import crd
from tfdist.api.resource import GROUP, KIND, VERSION

Schema = Mapping[str, Any]

PATH: Final = f"/openapi/v3/apis/{GROUP}/{VERSION}"

_OPEN: Final = "x-kubernetes-preserve-unknown-fields"


def missing_fields(published: Schema, field: str) -> list[str]:
    """Return the paths of the fields that the published schema lacks.

    Args:
        published: answer to a request of `PATH`.
        field: `spec` or `status`.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: the answer has an unexpected form.
    """
    (served,) = filter(_is_job, published["components"]["schemas"].values())
    (version,) = crd()["spec"]["versions"]
    ours = version["schema"]["openAPIV3Schema"]["properties"][field]
    return list(_missing(ours, served["properties"].get(field, {}), field))


def _is_job(schema: Schema) -> bool:
    kinds = schema.get("x-kubernetes-group-version-kind", ())
    return {"group": GROUP, "kind": KIND, "version": VERSION} in kinds


def _missing(ours: Schema, served: Schema, path: str) -> Iterator[str]:
    """Yield the paths of the fields of `ours` that the schema `served` lacks."""
    if served.get(_OPEN):
        return
    known = served.get("properties", {})
    for name, field in ours.get("properties", {}).items():
        if name in known:
            yield from _missing(field, known[name], f"{path}.{name}")
        else:
            yield f"{path}.{name}"
    for key, step in (("additionalProperties", ".*"), ("items", "[]")):
        if isinstance(ours.get(key), Mapping) and isinstance(served.get(key), Mapping):
            yield from _missing(ours[key], served[key], path + step)
