"""Former names of configuration fields and values: still accepted, and reported with a warning."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import AliasChoices, BaseModel, BeforeValidator
from pydantic.alias_generators import to_snake
from pydantic.fields import FieldInfo

from tfdist.programs.base import Location


def former_name(name: str, former: str) -> AliasChoices:
    """Return the `validation_alias` of a field that has been renamed; both names are in camel case."""
    return AliasChoices(name, former, to_snake(former))


@dataclass(frozen=True, slots=True)
class _FormerValues:
    current: Mapping[str, str]

    def __call__(self, value: Any) -> Any:
        return self.current.get(value, value) if isinstance(value, str) else value


def former_values(current: Mapping[str, str]) -> BeforeValidator:
    """Return the validator of a field whose values have been renamed: `current` value by former value."""
    return BeforeValidator(_FormerValues(current))


def field_names(name: str, field: FieldInfo) -> list[str]:
    """Return the names under which a field is accepted, the current ones first."""
    current = [field.alias or name, name]
    alias = field.validation_alias
    former = alias.choices[1:] if isinstance(alias, AliasChoices) else ()
    return [*current, *map(str, former)]


def former_uses(
    model: type[BaseModel], config: Mapping[str, Any], location: Location = ()
) -> Iterator[tuple[Location, str]]:
    """Yield the location and the remedy of each former name in `config`, a valid configuration of `model`."""
    for name, field in model.model_fields.items():
        current, *_ = names = field_names(name, field)
        used = next((key for key in names if key in config), None)
        if used is None:
            continue
        value, place = config[used], (*location, used)
        renamed = _current_value(field, value)
        if renamed != value or used not in {current, name}:
            yield place, f"former name; use {current}" + (f": {renamed}" if renamed != value else "")
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel) and isinstance(value, Mapping):
            yield from former_uses(inner, value, place)


def _current_value(field: FieldInfo, value: Any) -> Any:
    for each in field.metadata:
        if isinstance(each, BeforeValidator) and isinstance(each.func, _FormerValues):
            return each.func(value)
    return value
