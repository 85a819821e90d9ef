"""The schemas of TFDistJob and TFDistSweep that an API server publishes, compared with this version's.

It is read from `/openapi/v3`, which every authenticated account may read.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tfdist.api.crd import ResourceKind, crd
from tfdist.api.resource import GROUP

Schema = Mapping[str, Any]

_OPEN: Final = "x-kubernetes-preserve-unknown-fields"


def schema_path(kind: ResourceKind) -> str:
    """Return the path of the schemas that an API server publishes for the version of `kind`."""
    return f"/openapi/v3/apis/{GROUP}/{kind.version}"


def missing_fields(published: Schema, kind: ResourceKind, field: str) -> list[str]:
    """Return the paths of the fields that the published schema lacks.

    Args:
        published: answer to a request of `schema_path(kind)`.
        kind: the kind.
        field: `spec` or `status`.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: the answer has an unexpected form.
    """
    (served,) = (schema for schema in published["components"]["schemas"].values() if _describes(schema, kind))
    (version,) = crd(kind)["spec"]["versions"]
    ours = version["schema"]["openAPIV3Schema"]["properties"][field]
    return list(_missing(ours, served["properties"].get(field, {}), field))


def _describes(schema: Schema, kind: ResourceKind) -> bool:
    kinds = schema.get("x-kubernetes-group-version-kind", ())
    return {"group": GROUP, "kind": kind.kind, "version": kind.version} in kinds


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
