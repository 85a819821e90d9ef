"""The base of every model of the resource, and the marks that the CRD generator understands."""

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """One object of the resource: camel-case in YAML, immutable, and unknown fields are errors."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
        validate_default=True,
    )


def cel(rule: str, message: str, field_path: str | None = None) -> dict[str, str]:
    """Return one `x-kubernetes-validations` entry: `rule` in CEL, what to say when it is false, and where."""
    entry = {"rule": rule, "message": message}
    if field_path:
        entry["fieldPath"] = field_path
    return entry


def rules(*entries: dict[str, str]) -> dict[str, Any]:
    """Return the schema extension that puts CEL rules on a model or a field."""
    return {"x-kubernetes-validations": list(entries)}


def list_map(*keys: str) -> dict[str, Any]:
    """Return the schema extension for a list whose items are told apart by `keys`."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


OPEN_OBJECT: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
"""Schema extension for an object whose content somebody else defines (a volume, a program's configuration)."""
