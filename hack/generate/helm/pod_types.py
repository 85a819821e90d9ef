"""The types of a pod template as a JSON schema, which validates values whose type Kubernetes defines."""

from collections.abc import Mapping
from typing import Any, Final

from tfdist import podspec
from tfdist.api import patterns
from tfdist.podspec.schema import Field, types

Schema = dict[str, Any]

_AMOUNT: Final = {"anyOf": [{"type": "string", "pattern": patterns.QUANTITY}, {"type": "number", "minimum": 0}]}
_PRIMITIVES: Final[Mapping[str, Schema]] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "int32": {"type": "integer"},
    "int64": {"type": "integer"},
    "object": {"type": "object"},
    "quantity": _AMOUNT,
    "int-or-string": {"type": ["integer", "string"]},
    "time": {"type": "string"},
}


def definitions() -> dict[str, Schema]:
    """Return all types by name. Overlay types have no required fields, because a job supplies the rest."""
    return {name: _type(name) for name in sorted(types())}


def _type(name: str) -> Schema:
    made = types()[name]
    properties = {field: _field(content) for field, content in made.fields.items()}
    required = [] if name in podspec.OVERLAY else sorted(made.required)
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def _field(field: Field) -> Schema:
    value = dict(_PRIMITIVES.get(field.type) or {"$ref": f"#/$defs/{field.type}"})
    if field.enum:
        value["enum"] = list(field.enum)
    if field.shape == "list":
        return {"type": "array", "items": value}
    if field.shape == "map":
        return {"type": "object", "additionalProperties": value}
    return value
