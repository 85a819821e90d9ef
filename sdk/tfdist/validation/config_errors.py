"""Converts pydantic's errors about `training.config` to field errors: for `tfdist validate` and for the trainer."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError

from tfdist import messages
from tfdist.programs.base import RULE
from tfdist.validation.errors import FieldError
from tfdist.validation.model_errors import message_of

_KEY: Final = "[key]"
_MIN_CLASSES: Final = 2


def config_errors(
    error: ValidationError, model: type[BaseModel], config: Mapping[str, Any], path: str, unknown_field_remedy: str
) -> Iterator[FieldError]:
    """Yield the errors of a configuration.

    Args:
        error: the error about it.
        model: the model that it violates.
        config: the configuration.
        path: path of the configuration.
        unknown_field_remedy: advice about an unknown field that resembles none of the model.
    """
    details = error.errors(include_url=False)
    parents = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    classes = _count_of_classes(config)
    for detail in details:
        if detail["type"] == "too_short" and detail["loc"] in parents:
            continue  # pydantic counts only the valid items of a tuple
        location = [part for part in detail["loc"][:-1] if part != _KEY]
        if detail["loc"][-1:] != (_KEY,):
            location += detail["loc"][-1:]
        advice = classes if detail["loc"][:1] == ("classes",) else ""
        yield FieldError(messages.child_path(path, *location), _message(detail, model, unknown_field_remedy) + advice)


def _message(error: Mapping[str, Any], model: type[BaseModel], unknown_field_remedy: str) -> str:
    if error["type"] == "extra_forbidden":
        return _unknown(error["loc"], model, unknown_field_remedy)
    if error["type"] == RULE:
        return str(error["msg"])
    if error["type"] == "value_error":  # of a class of the user
        return str(error["msg"]).removeprefix("Value error, ")
    return message_of(error)


def _unknown(location: Sequence[str | int], model: type[BaseModel], remedy: str) -> str:
    return messages.unknown_field(str(location[-1]), _fields_at(model, location[:-1]), remedy)


def _fields_at(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    """Return the names of the fields of the object at `location`."""
    current: type[BaseModel] | None = model
    for part in location:
        fields = current.model_fields.items() if current else ()
        annotation = next((field.annotation for name, field in fields if part in {field.alias, name}), None)
        current = _model_in(annotation)
    return [field.alias or name for name, field in current.model_fields.items()] if current else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model in the type of a field: itself, or optional."""
    options = (annotation, *get_args(annotation))
    return next((option for option in options if isinstance(option, type) and issubclass(option, BaseModel)), None)


def _count_of_classes(config: Mapping[str, Any]) -> str:
    """Return the advice for `classes: [0, 1]`: labels that are numbers from 0 have no names; "" for other classes."""
    classes = config.get("classes")
    if not isinstance(classes, list) or len(classes) < _MIN_CLASSES:
        return ""
    are_indices = all(type(item) is int and item == number for number, item in enumerate(classes))
    return f", or set classes: {len(classes)} for labels 0 to {len(classes) - 1}" if are_indices else ""
