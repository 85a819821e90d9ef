"""The base of every model of the resource, and what the CRD generator understands beyond types."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True)
class Check:
    """One rule between the fields of a model, said twice: in CEL for the API server, in Python for offline use.

    A test evaluates both on the same manifests. `path` is that of the field to change, relative to the model,
    such as `.worker.replicas`; `holds` gets the model and returns whether the rule is kept.
    """

    rule: str
    message: str
    path: str
    holds: Callable[[Any], bool]

    def cel(self) -> dict[str, str]:
        """Return the rule as an entry of `x-kubernetes-validations`."""
        place = {"fieldPath": self.path} if self.path else {}
        return {"rule": self.rule, "message": self.message} | place


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
    checks: ClassVar[tuple[Check, ...]] = ()
    """Rules between the fields."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add the checks to the schema, in the words of Kubernetes."""
        result = handler(schema)
        if cls.checks:
            handler.resolve_ref_schema(result)["x-kubernetes-validations"] = [c.cel() for c in cls.checks]
        return result


def list_map(*keys: str) -> dict[str, Any]:
    """Return the schema extension for a list whose items are told apart by `keys`."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


OPEN_OBJECT: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
"""Schema extension for an object whose content somebody else defines (a volume, a program's configuration)."""

SET: dict[str, Any] = {"x-kubernetes-list-type": "set"}
"""Schema extension for a list of distinct values."""
