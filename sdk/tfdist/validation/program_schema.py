"""Converts the JSON schema of a program's configuration to a pydantic validator."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic.alias_generators import to_snake
from pydantic_core import CoreSchema, SchemaValidator, core_schema

Schema = Mapping[str, Any]

_FORMER_NAME: Final = "x-formerName"
FORMER_VALUES: Final = "x-formerValues"
_TAG: Final = "\0"
"""Start of the tags of union members, which pydantic inserts into the location of an error."""


def validator(schema: Schema) -> SchemaValidator:
    """Return the validator of a configuration with the JSON schema `schema`."""
    return SchemaValidator(_core(schema, schema.get("$defs", {})))


def errors(error: ValidationError) -> Iterator[dict[str, Any]]:
    """Yield pydantic's errors of a configuration, with the locations of its fields and items."""
    for each in error.errors(include_url=False):
        location = tuple(part for part in each["loc"] if not str(part).startswith(_TAG))
        yield {**each, "loc": location}


def names_of(name: str, node: Schema) -> list[str]:
    """Return the names under which a field is accepted, the current one first."""
    former = node.get(_FORMER_NAME)
    return [name, to_snake(name), *((former, to_snake(former)) if former else ())]


def resolved(node: Schema, defs: Schema) -> Schema:
    """Return the definition that `node` refers to, or `node`."""
    found: Schema = defs[node["$ref"].rsplit("/", 1)[-1]] if "$ref" in node else node
    return found


def options_of(node: Schema, defs: Schema) -> list[Schema]:
    """Return the schemas of a value that may be null, without null."""
    options = (resolved(option, defs) for option in node.get("anyOf", (node,)))
    return [option for option in options if option.get("type") != "null"]


def _core(node: Schema, defs: Schema) -> CoreSchema:
    """Return the pydantic schema of a node of a JSON schema, of the subset that pydantic generates."""
    node = resolved(node, defs)
    if "anyOf" in node:
        return _union(node, defs)
    if "enum" in node:
        return core_schema.literal_schema(list(node["enum"]))
    return _BUILDERS[node["type"]](node, defs)


def _union(node: Schema, defs: Schema) -> CoreSchema:
    """Return the schema of alternatives.

    Alternatives of the type of the value are validated alone: the error is then about an item of the list, or about the
    bound of the number, and not that it must be of that type.
    """
    options = options_of(node, defs)
    result = _core(options[0], defs)
    if len(options) > 1:
        text = f"must be {' or '.join(_description(option) for option in options)}"
        cores = [_core(option, defs) for option in options]
        anything = core_schema.union_schema([*cores], custom_error_type="union", custom_error_message=text)
        alone = {
            f"{_TAG}{name}": core
            for name, core in zip((option.get("type") for option in options), cores, strict=True)
            if name in _TYPES and sum(option.get("type") == name for option in options) == 1
        }
        choices = {_TAG: anything, **alone}

        def choose(value: Any) -> str:
            name = next((name for name, kind in _TYPES.items() if type(value) is kind), "")
            return f"{_TAG}{name}" if f"{_TAG}{name}" in choices else _TAG

        result = core_schema.tagged_union_schema(choices, choose)
    return core_schema.nullable_schema(result) if len(options) < len(node["anyOf"]) else result


_TYPES: Final = {"array": list, "integer": int, "object": dict}


def _description(node: Schema) -> str:
    if "enum" in node:
        return ", ".join(map(repr, node["enum"]))
    if "pattern" in node:
        return f"a string that matches {node['pattern']}"
    return _NAMES[str(node["type"])]


_NAMES: Final = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


def _object(node: Schema, defs: Schema) -> CoreSchema:
    if "properties" not in node:
        names = node.get("propertyNames", {})
        keys = core_schema.str_schema(min_length=names.get("minLength"), max_length=names.get("maxLength"))
        return core_schema.dict_schema(keys, _core(node["additionalProperties"], defs))
    required = node.get("required", ())
    fields = {
        name: core_schema.typed_dict_field(
            _core(_with_former_values(each), defs),
            required=name in required,
            validation_alias=_aliases(name, each),
        )
        for name, each in node["properties"].items()
    }
    return core_schema.typed_dict_schema(fields, extra_behavior="forbid")


def _aliases(name: str, node: Schema) -> list[list[str | int]]:
    return [[key] for key in names_of(name, node)]


def _with_former_values(node: Schema) -> Schema:
    return {**node, "enum": [*node["enum"], *node[FORMER_VALUES]]} if FORMER_VALUES in node else node


def _array(node: Schema, defs: Schema) -> CoreSchema:
    if "prefixItems" in node:
        return core_schema.tuple_schema([_core(item, defs) for item in node["prefixItems"]])
    return core_schema.list_schema(_core(node["items"], defs), min_length=node.get("minItems"))


def _bounds(node: Schema) -> dict[str, Any]:
    names = {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"}
    return {names[name]: value for name, value in node.items() if name in names}


def _string(node: Schema, _: Schema) -> CoreSchema:
    return core_schema.str_schema(
        min_length=node.get("minLength"), max_length=node.get("maxLength"), pattern=node.get("pattern")
    )


_BUILDERS: Final = {
    "array": _array,
    "boolean": lambda _, __: core_schema.bool_schema(),
    "integer": lambda node, _: core_schema.int_schema(**_bounds(node)),
    "number": lambda node, _: core_schema.float_schema(allow_inf_nan=False, **_bounds(node)),
    "object": _object,
    "string": _string,
}
