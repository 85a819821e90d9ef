"""Base of the models of the resource, and extensions of the schema beyond types."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from tfdist.api.attribute_docstrings import attribute_docstrings


@dataclass(frozen=True, slots=True)
class CrossFieldRule:
    """A rule between the fields of a model, in CEL for the API server and in Python for offline validation.

    A test evaluates both on the same manifests. `path` is the field to change, relative to the model, such as
    `.worker.replicas`; `python` gets the model and returns whether it meets the rule. `on_server` is False for a rule
    that reads a field with values of any type: Kubernetes' CEL has no such fields, so the API server has no such rule.
    """

    cel: str
    message: str
    path: str
    python: Callable[[Any], bool]
    on_server: bool = True

    def schema_entry(self) -> dict[str, str]:
        """Return the rule as an entry of `x-kubernetes-validations`."""
        place = {"fieldPath": self.path} if self.path else {}
        return {"rule": self.cel, "message": self.message} | place


class ApiModel(BaseModel):
    """An object of the resource: camel-case in YAML, immutable; unknown fields are errors."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        validate_default=True,
    )
    cross_field_rules: ClassVar[tuple[CrossFieldRule, ...]] = ()
    """Rules between the fields."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add the docstrings of the fields as descriptions, and the rules as `x-kubernetes-validations`."""
        result = handler(schema)
        resolved = handler.resolve_ref_schema(result)
        for name, text in attribute_docstrings(cls).items():
            if name in cls.model_fields:
                resolved["properties"][cls.model_fields[name].alias or name].setdefault("description", text)
        if rules := [rule.schema_entry() for rule in cls.cross_field_rules if rule.on_server]:
            resolved["x-kubernetes-validations"] = rules
        return result


def list_map(*keys: str) -> dict[str, Any]:
    """Return the schema extension of a list of type `map`, whose items are identified by `keys`."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


OPEN_VALUE: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
"""Schema extension of a value of any type."""

MAX_OPEN_FIELDS: Final = 1024
"""Fields of an object that may have unknown ones: a pod has about 45, and no configuration as many."""

OPEN_OBJECT: dict[str, Any] = OPEN_VALUE | {"maxProperties": MAX_OPEN_FIELDS}
"""Schema extension of an object with unknown fields, such as a volume."""

OpenObject = Annotated[dict[str, Any], Field(max_length=MAX_OPEN_FIELDS, json_schema_extra=OPEN_OBJECT)]
"""An object with any fields, such as the configuration of a program."""

SET: dict[str, Any] = {"x-kubernetes-list-type": "set"}
"""Schema extension of a list of distinct values."""
