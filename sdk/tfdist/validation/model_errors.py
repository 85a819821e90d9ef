"""Converts pydantic's errors to field errors: path, invalid value, and rule, in the form of Kubernetes."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, UnionType
from typing import Any, Final, Union, cast, get_args, get_origin

from pydantic import BaseModel

from tfdist import messages
from tfdist.api.patterns import PATTERN_DESCRIPTIONS
from tfdist.validation.errors import FieldError


def field_error(error: Mapping[str, Any], model: type[BaseModel]) -> FieldError:
    """Return the field error of one of pydantic's errors about `model`."""
    location = [part for part in error["loc"] if part != "[key]"]
    if error["type"] == "extra_forbidden":
        # The last part is the field itself, whatever its name.
        location = [*(part for part in error["loc"][:-1] if part != "[key]"), error["loc"][-1]]
        return FieldError(messages.join_path(location), _unknown_field(location, model))
    return FieldError(messages.join_path(location), message_of(error))


def message_of(error: Mapping[str, Any]) -> str:
    """Return the message of one of pydantic's errors, except for an unknown field."""
    kind, value = error["type"], error.get("input")
    context = {name: _plain_number(bound) for name, bound in error.get("ctx", {}).items()}
    context["plural"] = "" if context.get("min_length") == 1 else "s"
    if kind in _WITHOUT_RULE:
        return _WITHOUT_RULE[kind](value, context)
    rule = _RULES[kind].format(**context) if kind in _RULES else _lower_first(error["msg"])
    if kind == "string_pattern_mismatch" and context["pattern"] in PATTERN_DESCRIPTIONS:
        rule = f"must be {PATTERN_DESCRIPTIONS[context['pattern']]}"
    return messages.invalid(value, f"the key {rule}" if "[key]" in error["loc"] else rule)


def _unsupported(value: Any, context: Mapping[str, Any]) -> str:
    return messages.unsupported(value, re.findall("'([^']*)'", context["expected"]) or [context["expected"]])


_WITHOUT_RULE: Final[Mapping[str, Callable[[Any, Mapping[str, Any]], str]]] = {
    "duplicate": lambda _, context: messages.duplicate(context["key"], "items {first} and {second}".format(**context)),
    "enum": _unsupported,
    "literal_error": _unsupported,
    "missing": lambda _, __: messages.REQUIRED,
    "string_too_long": lambda value, context: (
        f"Too long: {len(value)} characters: must have at most {context['max_length']} characters"
    ),
    "too_long": lambda value, context: f"Too many: {len(value)}: must have at most {context['max_length']} items",
}
_RULES: Final = {
    "bool_parsing": "must be true or false, without quotes",
    "bool_type": "must be true or false, without quotes",
    "dict_type": "must be an object",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number, without quotes",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be an integer",
    "int_parsing": "must be an integer",
    "int_parsing_size": "must be a smaller integer",
    "int_type": "must be an integer, without quotes",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "model_type": "must be an object",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_short": "must have at least {min_length} character{plural}",
    "string_type": messages.MUST_BE_STRING,
    "too_short": "must have at least {min_length} item{plural}; add one or remove the field",
    "tuple_type": "must be a list",
}


def _plain_number(value: Any) -> Any:
    """Return a bound without a needless fraction: 10, not 10.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _lower_first(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"


def _unknown_field(location: Sequence[str | int], model: type[BaseModel]) -> str:
    resource = model.__name__.lower()  # a model has the name of its kind
    kubectl = ".".join([resource, *(p for p in location[:-1] if isinstance(p, str))])
    name = str(location[-1])
    place = _only_places(model).get(name)
    advice = f"did you mean {place}?" if place else f"see `kubectl explain {kubectl}`"
    return messages.unknown_field(name, _fields_at(model, location[:-1]), advice)


@functools.cache
def _only_places(model: type[BaseModel]) -> Mapping[str, str | None]:
    """Return the path of each field of the specification, the shortest one, by its name; None if there are several."""
    places: dict[str, str | None] = {}
    level = [["spec"]]
    while level:
        paths = [[*path, field] for path in level for field in _fields_at(model, path)]
        of_level: dict[str, str | None] = {}
        for path in paths:
            of_level[path[-1]] = None if path[-1] in of_level else messages.join_path(path)
        places = of_level | places
        level = [path for path in paths if takes_object(model, path)]
    return MappingProxyType(places)


def _fields_at(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    """Return the names of the fields of the object at `location` in `model`; empty if no model defines it."""
    current = _model_at(model, location)
    return [f.alias or name for name, f in current.model_fields.items()] if current else []


def takes_object(model: type[BaseModel], location: Sequence[str | int]) -> bool:
    """Return whether the field at `location` in `model` is an object, and not a list of objects."""
    parent = _model_at(model, location[:-1])
    fields = parent.model_fields.values() if parent else ()
    annotation = next((f.annotation for f in fields if f.alias == location[-1]), None)
    alternatives = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    return any(map(_is_model, alternatives))


def _model_at(model: type[BaseModel], location: Sequence[str | int]) -> type[BaseModel] | None:
    current: type[BaseModel] | None = model
    for part in location:
        if current is None or isinstance(part, int):
            continue
        current = next((_model_in(f.annotation) for f in current.model_fields.values() if f.alias == part), None)
    return current


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model in a field's type: itself, of the items of a list, or optional."""
    if _is_model(annotation):
        return cast("type[BaseModel]", annotation)
    models = (_model_in(a) for a in getattr(annotation, "__args__", ()))
    return next((m for m in models if m), None)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
