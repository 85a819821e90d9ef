"""Former names of configuration fields: still accepted, and reported with a warning.

The former names of a field and of its values are part of its JSON schema (`x-formerName`, `x-formerValues`). So
`tfdist validate` accepts and reports the same names as the trainer (`tfdist.validation.programs`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from pydantic import AliasChoices, BaseModel, BeforeValidator
from pydantic.alias_generators import to_snake

FORMER_NAME: Final = "x-formerName"
FORMER_VALUES: Final = "x-formerValues"


def former_name(name: str, former: str, values: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return arguments for `pydantic.Field` of a field that has been renamed.

    Args:
        name: name of the field in a job, in camel case.
        former: the former name, in camel case.
        values: current value by former value, if values have been renamed too.
    """
    extra: dict[str, Any] = {FORMER_NAME: former}
    if values:
        extra |= former_values(values)["json_schema_extra"]
    return {"validation_alias": AliasChoices(name, former, to_snake(former)), "json_schema_extra": extra}


def former_values(values: Mapping[str, str]) -> dict[str, Any]:
    """Return arguments for `pydantic.Field` of a field whose values have been renamed; keys are the former values."""
    return {"json_schema_extra": {FORMER_VALUES: dict(values)}}


def renamed_values(values: Mapping[str, str]) -> BeforeValidator:
    """Return the validator that replaces former values."""
    return BeforeValidator(lambda value: values.get(value, value) if isinstance(value, str) else value)


def former_uses(model: type[BaseModel], config: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield (path, remedy) of each former name in `config`, a valid configuration of `model` at `path`."""
    for name, field in model.model_fields.items():
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        former, values = str(extra.get(FORMER_NAME, "")), cast("dict[str, str]", extra.get(FORMER_VALUES, {}))
        current = field.alias or name
        given = next((key for key in (former, to_snake(former), current, name) if key and key in config), None)
        if given is None:
            continue
        value = config[given]
        renamed = isinstance(value, str) and value in values
        if renamed or given in {former, to_snake(former)}:
            yield f"{path}.{given}", f"write {current}: {values[value]}" if renamed else f"write {current}"
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel) and isinstance(value, Mapping):
            yield from former_uses(inner, value, f"{path}.{given}")
